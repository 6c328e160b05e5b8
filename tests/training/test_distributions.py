"""Runs whose augmentation has correlated, off-centre and enumerated parts."""

from pathlib import Path

import pytest
import torch
from torch import nn

import lila


class Interrupted(Exception):  # noqa: N818
    """Ends a run in its middle."""


def new_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(25, 6), nn.Tanh(), nn.Linear(6, 2))


def new_augmentation() -> lila.Augmentation:
    moving = lila.Affine2d(["x-scale", "y-scale", "rotation"], correlated=True, rank=2, offset=True)
    return lila.Compose(moving, lila.HorizontalFlip())


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    data = torch.rand(40, 1, 5, 5, generator=generator), torch.arange(40) % 2
    settings = {"epochs": 6, "samples": 4, "burn_in": 0, "checkpoint_every": 1, "progress": "silent"}
    whole = lila.fit(new_net(), data, new_augmentation(), **settings)  # type: ignore[arg-type]

    def stop(record: lila.EpochRecord) -> None:
        if record.epoch == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        lila.fit(new_net(), data, new_augmentation(), folder=tmp_path, callbacks=[stop], **settings)  # type: ignore[arg-type]
    again = lila.resume(tmp_path, new_net(), data, new_augmentation(), progress="silent")
    expected, found = whole.model.state_dict(), again.model.state_dict()
    assert set(expected) == set(found)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    assert expected["augmentation.parts.0.eta"].shape == (3, 2)
    for name in ("parts.0.eta", "parts.0.centre"):
        assert whole.model.augmentation.get_parameter(name).abs().max() > 0
    loaded = lila.load(tmp_path)
    assert loaded.ranges == again.ranges
    assert loaded.summary() == again.summary()
