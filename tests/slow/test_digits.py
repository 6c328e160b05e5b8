"""Real digits, turned by up to 90 degrees: the range is recovered, and nothing else is learned."""

from functools import cache
from math import pi

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import lila
from lila.augment import Padding, warp

Data = tuple[Tensor, Tensor]


def turned_digits(seed: int, reach: float = pi / 2) -> tuple[Data, Data]:
    """Training (1,000) and test digits, resized to 14 x 14, padded to 16 x 16 and turned by a uniform angle."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
    images = F.pad(F.interpolate(images, size=(14, 14), mode="bilinear", align_corners=False), (1, 1, 1, 1))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    angle = reach * (2 * torch.rand(len(images), generator=generator) - 1)
    turn = torch.linalg.matrix_exp(-angle[:, None, None, None] * torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]))
    x, y = warp(images[order], turn, Padding.ZEROS)[:, 0], torch.tensor(digits.target)[order]
    return (x[:1000], y[:1000]), (x[1000:], y[1000:])


@cache
def run(method: str, seed: int) -> lila.Run:
    torch.set_num_threads(1)
    train, test = turned_digits(seed)
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 200), nn.Tanh(), nn.Linear(200, 10))
    return lila.fit(
        net,
        train,
        lila.Affine2d(),
        test=test,
        method=method,
        epochs=80,
        batch_size=100,
        lr=0.01,
        eta_lr=0.1,
        hyper_lr=0.1,
        burn_in=5,
        gradient_probes=1,
        seed=seed,
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
