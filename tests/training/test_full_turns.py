"""Ranges of angles that came to rest: the full turn is taken where it has more evidence, and left alone where not."""

from math import pi

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.data.examples import Batch
from lila.laplace.running import RunningEvidence
from lila.training.full_turns import FullTurns

EXAMPLES = 48


def points(label: str) -> tuple[Tensor, Tensor]:
    """Points in the plane whose class is their radius, which no turn changes, or the side on which they lie."""
    torch.manual_seed(0)
    angle, radius = 2 * pi * torch.rand(EXAMPLES), 0.5 + torch.randint(0, 2, (EXAMPLES,))
    x = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return x, (radius > 1).long() if label == "radius" else (x[:, 0] > 0).long()


def trained(label: str, augmentation: lila.Augmentation) -> tuple[RunningEvidence, Batch]:
    """A network that was trained with the present range, and its running evidence."""
    x, y = points(label)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    model, likelihood = lila.InvariantModel(net, augmentation, samples=8), lila.Categorical()
    optimiser, index = torch.optim.Adam(net.parameters(), lr=0.02), torch.arange(EXAMPLES)
    for step in range(80):
        optimiser.zero_grad()
        f = model(x, model.draw(lila.Draw(0, step), index, x.dtype))
        (-likelihood.log_prob(f, y).mean()).backward()
        optimiser.step()
    evidence = lila.Evidence(model, likelihood, lila.GaussianPrior(net, precision=0.1), gradient_probes=1)
    batch = Batch(index, x, y)
    running = RunningEvidence(evidence, EXAMPLES, batch)
    running.add(batch, lila.Draw(1), EXAMPLES)
    running.decompose(move_prior=False)
    return running, batch


def look(turns: FullTurns, running: RunningEvidence, batch: Batch, *, hyper_steps: range) -> None:
    for step in hyper_steps:
        some = Batch(*(part[step % 3 :: 3] for part in (batch.index, batch.x, batch.y)))
        turns.look(running, some, lila.Draw(2, step), len(some.x), hyper_step=step, progress=0.6)


def learned(augmentation: lila.Augmentation) -> list[Tensor]:
    return list(augmentation.parameters())


@pytest.mark.parametrize("parameterisation", ["identity", "inverse"])
def test_the_full_turn_is_taken_if_it_has_more_evidence(parameterisation: str) -> None:
    augmentation = lila.Rotation2d(init=1.6, parameterisation=parameterisation)
    running, batch = trained("radius", augmentation)
    turns = FullTurns(augmentation, learned(augmentation))
    look(turns, running, batch, hyper_steps=range(1, 64))  # all looks but the last
    assert augmentation.ranges["rotation"] == pytest.approx(1.6)
    assert len(turns.sampled) == 2
    look(turns, running, batch, hyper_steps=range(64, 65))
    assert augmentation.ranges["rotation"] == pytest.approx(pi)
    assert not turns.sampled


def test_it_is_not_taken_if_labels_depend_on_the_angle() -> None:
    augmentation = lila.Rotation2d(init=1.0)
    running, batch = trained("side", augmentation)
    turns = FullTurns(augmentation, learned(augmentation))
    look(turns, running, batch, hyper_steps=range(200))
    assert augmentation.ranges["rotation"] == 1.0


def test_it_is_not_taken_while_the_range_moves() -> None:
    augmentation = lila.Rotation2d(init=1.6)
    running, batch = trained("radius", augmentation)
    turns = FullTurns(augmentation, learned(augmentation))
    for step in range(0, 80, 4):
        with torch.no_grad():
            augmentation.eta.add_(0.015)
        look(turns, running, batch, hyper_steps=range(step, step + 1))
    assert augmentation.ranges["rotation"] == pytest.approx(1.9)


@pytest.mark.parametrize(("rotation", "progress"), [(1.6, 0.49), (1.6, 0.8), (0.7, 0.6), (3.1, 0.6)])
def test_nobody_looks_too_early_too_late_or_from_a_small_or_full_turn(rotation: float, progress: float) -> None:
    augmentation = lila.Rotation2d(init=rotation)
    running, batch = trained("radius", augmentation)
    turns = FullTurns(augmentation, learned(augmentation))
    for step in range(0, 160, 4):
        turns.look(running, batch, lila.Draw(), EXAMPLES, hyper_step=step, progress=progress)
    assert augmentation.ranges["rotation"] == pytest.approx(rotation)
    assert not turns.sampled


def test_its_tensors_are_all_it_takes_to_go_on() -> None:
    augmentation = lila.Rotation2d(init=1.6)
    running, batch = trained("radius", augmentation)
    first, second = (FullTurns(augmentation, learned(augmentation)) for _ in range(2))
    look(first, running, batch, hyper_steps=range(1, 30))
    second.load_tensors({name: tensor.clone() for name, tensor in first.tensors().items()}, running)
    for turns in (first, second):
        look(turns, running, batch, hyper_steps=range(30, 60))
    for name, tensor in first.tensors().items():
        assert torch.equal(second.tensors()[name], tensor)


def test_angles_take_turns() -> None:
    """The first does not gain from a full turn, and is not looked at for ever."""
    one, other = lila.Rotation2d(init=1.0), lila.Rotation2d(init=1.6)
    augmentation = lila.Compose(one, other)
    running, batch = trained("side", augmentation)
    turns, seen = FullTurns(augmentation, learned(augmentation)), []
    for _ in range(3):
        look(turns, running, batch, hyper_steps=range(4, 68, 4))
        seen.append(int(turns.tensors()["numbers"][0]))
    assert seen == [1, 0, 1]


def test_ranges_that_are_not_learned_stay() -> None:
    augmentation = lila.Rotation2d(init=1.6)
    running, batch = trained("radius", augmentation)
    look(FullTurns(augmentation, []), running, batch, hyper_steps=range(100))
    assert augmentation.ranges["rotation"] == pytest.approx(1.6)


def test_angles_of_every_family_have_a_full_turn() -> None:
    affine, colour = lila.Affine2d(init=-0.5), lila.Colour(init=1.0)
    both = lila.Compose(affine, colour).full_turns()
    assert [(turn.position, turn.value) for turn in both] == [(2, -pi), (3, pi)]  # rotation, hue
    assert both[0].parameter is affine.eta
    assert [turn.share for turn in both] == pytest.approx([0.5 / pi, 1 / pi])
    assert lila.Affine2d(["x-scale"]).full_turns() == ()
    assert lila.Affine2d(correlated=True).full_turns() == ()
    assert [turn.value for turn in lila.PointCloud().full_turns()] == [pi] * 3


def test_a_run_with_half_of_a_turn_ends_with_a_full_one() -> None:
    """The rate of the range is so small that the gradient alone does not get there."""
    data, net = points("radius"), nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    run = lila.fit(
        net,
        data,
        lila.Rotation2d(init=1.6),
        epochs=56,
        batch_size=12,
        samples=4,
        hyper_every=1,
        lr=0.02,
        eta_lr=1e-4,
        eta_lr_end=1e-4,
        burn_in=2,
        baseline=False,
        progress="silent",
    )
    rotations = [record.ranges["rotation"] for record in run.history]
    assert rotations[27] == pytest.approx(1.6, abs=0.02)
    assert rotations[-1] == pytest.approx(pi, abs=0.02)
