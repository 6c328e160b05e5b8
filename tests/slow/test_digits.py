"""Real digits, turned by up to 90 degrees: the range is recovered, and nothing else is learned."""

from functools import cache
from math import pi
from typing import Any

import pytest
import torch
from torch import nn

import lila


@cache
def run(method: str, seed: int, parameterisation: str = "identity") -> lila.Run:
    torch.set_num_threads(1)
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", seed=seed))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 200), nn.Tanh(), nn.Linear(200, 10))
    rates: dict[str, Any] = {}
    if parameterisation == "inverse":  # eta = 1 / range starts at 10, from where it has a long way to go
        rates = {"eta_lr": 0.3}
    elif method in ("augerino", "maximum-likelihood"):  # which step it with every batch
        rates = {"eta_lr": 0.1}
    return lila.fit(
        net,
        task.train,
        lila.Affine2d(parameterisation=parameterisation),
        test=task.test,
        method=method,
        progress="silent",
        seed=seed,
        **rates,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_rotation_is_recovered_and_nothing_else(seed: int) -> None:
    ranges = dict(run("lila", seed).ranges)
    assert ranges.pop("rotation") == pytest.approx(pi / 2, rel=0.1)
    assert max(ranges.values()) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["maximum-likelihood", "augerino"])
def test_what_only_fits_the_data_does_not_recover_the_range(method: str) -> None:
    """Maximum likelihood stays at zero, and Augerino at its default strength is far from a quarter turn."""
    ranges = dict(run(method, 0).ranges)
    assert ranges["rotation"] < 0.5 * pi / 2
    if method == "maximum-likelihood":
        assert max(ranges.values()) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_accuracy_and_evidence_beat_the_non_invariant_networks(seed: int) -> None:
    invariant, plain = run("lila", seed), run("non-invariant", seed)
    assert invariant.test is not None
    assert plain.test is not None
    assert invariant.test["accuracy"] > plain.test["accuracy"]
    assert invariant.evidence.value > plain.evidence.value


@pytest.mark.slow
def test_the_inverse_parameterisation_changes_nothing_for_lila_and_breaks_augerino() -> None:
    ranges = dict(run("lila", 0, "inverse").ranges)
    assert ranges.pop("rotation") == pytest.approx(run("lila", 0).ranges["rotation"], rel=0.1)
    assert max(ranges.values()) < 0.15
    assert run("augerino", 0, "inverse").ranges["rotation"] < 0.1 * pi / 2
