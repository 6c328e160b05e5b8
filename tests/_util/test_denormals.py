"""Denormal numbers are zero inside of `flush_denormals`, in all threads, and what they were after it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lila

_MANY = 500_000  # elements, which PyTorch shares out among its threads


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.set_num_threads(request.param)
    torch.ones(_MANY).mul(2.0)  # starts the threads
    yield
    torch.set_num_threads(1)


def share_flushed() -> float:
    """The share of denormal numbers that are zero after a product with 1, whichever thread computed it."""
    product = torch.full((_MANY,), 1, dtype=torch.int32).view(torch.float32).mul(1.0)
    return float((product.view(torch.int32) == 0).double().mean())  # by their bits, as comparisons may flush too


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Tanh(), nn.Linear(4, 3))


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor does not flush denormal numbers")
@pytest.mark.usefixtures("threads")
class TestFlushing:
    def test_it_reaches_all_threads_and_ends(self) -> None:
        assert share_flushed() == 0.0
        with lila.flush_denormals():
            assert share_flushed() == 1.0
            with lila.flush_denormals():
                pass
            assert share_flushed() == 1.0
        assert share_flushed() == 0.0

    def test_it_ends_with_an_error(self) -> None:
        with pytest.raises(KeyError), lila.flush_denormals():
            raise KeyError
        assert share_flushed() == 0.0

    def test_what_was_set_before_stays(self) -> None:
        torch.set_flush_denormal(True)
        try:
            with lila.flush_denormals():
                pass
            assert torch.full((), 1e-40).mul(1.0).item() == 0.0
        finally:
            torch.set_flush_denormal(False)

    def test_runs_are_trained_and_resumed_like_this(self, tmp_path: Path) -> None:
        found: list[float] = []
        data = torch.rand(20, 1, 6, 6), torch.randint(0, 3, (20,))
        settings: dict[str, Any] = {"epochs": 2, "samples": 2, "method": "non-invariant", "folder": tmp_path}

        def stop(record: lila.EpochRecord) -> object:
            found.append(share_flushed())
            return lila.STOP

        lila.fit(network(), data, callbacks=[stop], progress="silent", **settings)
        lila.resume(tmp_path, network(), data, callbacks=[stop], progress="silent")
        assert found == [1.0, 1.0]
        assert share_flushed() == 0.0
