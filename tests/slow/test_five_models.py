"""The paper's toy example (Appendix J): the range is recovered, and the evidence orders five models as there."""

from functools import cache
from math import pi
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.data.toy import REACH, arcs

SEED = 0


class Polar(nn.Module):
    """Prior knowledge by hand: radius and angle in place of coordinates."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.norm(dim=1), torch.atan2(x[:, 1], x[:, 0])], dim=1)


def fitted(structure: str, method: str = "lila", start: float = 0.0, *first: nn.Module) -> lila.Run:
    """500 steps with the paper's settings; the learning rate of eta is in half turns."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    net = nn.Sequential(*first, nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
    return lila.fit(
        net,
        arcs(seed=SEED),
        lila.Rotation2d(init=start),
        method=method,
        structure=structure,
        passes="probed",
        noise="independent",
        epochs=500,
        batch_size=200,
        microbatch=200,
        samples=100,
        lr=0.1,
        lr_end=0.1,
        hyper_lr=0.1,
        eta_lr=0.005 * pi,
        eta_lr_end=0.0001 * pi,
        burn_in=0,
        prior="scalar",
        progress="silent",
        seed=SEED,
    )


@cache
def model(name: str) -> lila.Run:
    arguments: dict[str, tuple[Any, ...]] = {
        "non-invariant": ("full", "non-invariant"),
        "polar": ("full", "non-invariant", 0.0, Polar()),
        "standard augmentation": ("full", "fixed-loss", REACH),
        "lila": ("full",),
        "lila, kron": ("kron",),
    }
    return fitted(*arguments[name])


def full_evidence(run: lila.Run) -> float:
    """The evidence with the full Gauss-Newton matrix, whatever structure the run was trained with."""
    evidence = lila.Evidence(
        run.model, run.likelihood, run.prior, structure="full", microbatch=200, average=run.settings.procedure.average
    )
    return evidence.estimate(arcs(seed=SEED), lila.Draw(SEED, 10_000)).value


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lila", "lila, kron"])
def test_the_range_is_recovered_to_15_percent(name: str) -> None:
    assert model(name).ranges["rotation"] == pytest.approx(REACH, rel=0.15)


@pytest.mark.slow
def test_the_evidence_orders_five_models_as_the_papers_figure_does() -> None:
    """Learned invariance and prior knowledge are on par; no invariance is worse, standard augmentation worst."""
    names = ["lila", "lila, kron", "polar", "non-invariant", "standard augmentation"]
    value = {name: full_evidence(model(name)) for name in names}
    assert value["lila"] > value["non-invariant"] > value["standard augmentation"], value
    assert value["lila, kron"] > value["non-invariant"], value
    assert value["lila"] == pytest.approx(value["lila, kron"], abs=2), value
    assert value["lila"] == pytest.approx(value["polar"], abs=2), value
