"""Flips and quarter turns: their maps, their probabilities, and the enumeration of their outcomes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.augment.base import FIRST_OUTCOME
from lila.augment.checks import check_differentiable
from lila.augment.enumeration import combinations, enumerated, view_weights
from oracles import central_differences

FAMILIES: dict[str, type[lila.DiscreteFamily]] = {
    "horizontal": lila.HorizontalFlip,
    "vertical": lila.VerticalFlip,
    "turns": lila.QuarterTurns,
}


def asked(*outcomes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Noise of one example whose views ask for these outcomes."""
    return FIRST_OUTCOME + torch.tensor(outcomes, dtype=dtype)[None, :, None]


def test_each_outcome_is_its_map() -> None:
    x = torch.rand(1, 2, 5, 5, dtype=torch.float64)
    assert torch.equal(lila.HorizontalFlip()(x, asked(0, 1, 0))[0], torch.stack([x[0], x[0].flip(2), x[0]]))
    assert torch.equal(lila.VerticalFlip()(x, asked(1, 0))[0], torch.stack([x[0].flip(1), x[0]]))
    turned = lila.QuarterTurns()(x, asked(3, 0, 2, 1))[0]
    assert torch.equal(turned, torch.stack([x[0].rot90(k, (1, 2)) for k in (3, 0, 2, 1)]))


@pytest.mark.parametrize(
    ("family", "outcome"), [("horizontal", 1), ("vertical", 1), ("turns", 0), ("turns", 1), ("turns", 2), ("turns", 3)]
)
def test_points_go_where_the_pixels_go(family: str, outcome: int) -> None:
    x = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    x[0, 0, 1, 4] = 1.0  # at (2, -1) from the centre, y downwards
    found = torch.nonzero(FAMILIES[family]()(x, asked(outcome))[0, 0, 0])[0].flip(0) - 2
    moved = FAMILIES[family]().move_points(torch.tensor([[2.0, -1.0]]), asked(outcome)[0, 0], (1, 5, 5))
    assert moved is not None
    assert moved[0].tolist() == found.tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_learning_starts_at_the_identity_and_zero_noise_is_the_identity(family: str) -> None:
    x, noise = torch.rand(2, 1, 4, 4), torch.rand(2, 50, 1) * 2 - 1
    assert torch.equal(FAMILIES[family]()(x, noise), x[:, None].expand(2, 50, 1, 4, 4))
    assert set(FAMILIES[family]().ranges.values()) == {0.0}
    full = FAMILIES[family](init=1 / (len(FAMILIES[family].names) + 1))
    assert torch.equal(full(x, torch.zeros(2, 1, 1)), x[:, None])


@pytest.mark.parametrize(("family", "init"), [("horizontal", 0.3), ("vertical", 0.5), ("turns", [0.1, 0.3, 0.05])])
def test_uniform_noise_draws_each_outcome_by_its_probability(family: str, init: Any) -> None:
    made = FAMILIES[family](init=init)
    probabilities = made.probabilities().detach()
    expected = torch.tensor([init] if isinstance(init, float) else init)
    torch.testing.assert_close(probabilities, torch.cat([1 - expected.sum(0, keepdim=True), expected]))
    noise = torch.rand(1, 100_000, 1, generator=torch.Generator().manual_seed(0)) * 2 - 1
    found = torch.bincount(made.outcome(noise).flatten(), minlength=len(probabilities)) / 100_000
    torch.testing.assert_close(found, probabilities, rtol=0, atol=0.006)
    assert made.outcome_probability(noise) is None
    assert view_weights(made, noise) is None


def test_parameters_stay_between_never_and_as_probable_as_the_identity() -> None:
    turns = lila.QuarterTurns()
    with torch.no_grad():
        turns.eta.copy_(torch.tensor([-0.5, 3.0, 0.5]))
    assert turns.probabilities().tolist() == pytest.approx([0.4, 0.0, 0.4, 0.2])
    turns.saturate_()
    assert turns.eta.tolist() == [0.0, 1.0, 0.5]
    assert turns.shares == {"quarter turn": 0.0, "half turn": 1.0, "three-quarter turn": 0.5}
    assert turns.readable_ranges((1, 8, 8))["half turn"] == "40.0%"
    turns.probabilities()[1].backward()
    assert turns.eta.grad is not None
    assert turns.eta.grad[0] > 0  # at the border, a gradient leads away from it


def test_combinations_are_enumerated_over_several_families_and_weights_sum_to_one() -> None:
    both = lila.Compose(lila.HorizontalFlip(init=0.25), lila.Affine2d(["rotation"]), lila.QuarterTurns(init=0.2))
    assert both.outcomes == {0: 2, 2: 4}
    assert combinations(both) == 8
    noise = enumerated(torch.zeros(2, 11, 3), both.outcomes)
    assert len({tuple(row) for row in noise[0].tolist()}) == 8
    assert noise[..., 1].abs().max() == 0  # other noise is as it was
    weights = view_weights(both, noise)
    assert weights is not None
    torch.testing.assert_close(weights.sum(1), torch.ones(2))
    found = {tuple(row): 0.0 for row in noise[0].tolist()}
    for row, weight in zip(noise[0].tolist(), weights[0].tolist(), strict=True):
        found[tuple(row)] += weight
    for (flip, _, turn), weight in found.items():
        expected = (0.25 if flip > FIRST_OUTCOME else 0.75) * (0.2 if turn > FIRST_OUTCOME else 0.4)
        assert weight == pytest.approx(expected)
    assert lila.Compose().outcome_probability(torch.zeros(1, 1, 0)) is None


@pytest.mark.parametrize("start", [0.0, 0.2])
def test_the_average_and_its_gradient_in_the_probabilities_are_exact(start: float) -> None:
    torch.manual_seed(0)
    turns = lila.QuarterTurns(init=start).double()
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    model = lila.InvariantModel(net, turns, samples=6)
    x = torch.rand(3, 1, 4, 4, dtype=torch.float64)
    p = turns.probabilities()
    expected = torch.stack([p[k] * net(x.rot90(k, (2, 3))) for k in range(4)]).sum(0)
    torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model.eval()(x), expected)

    def value() -> Tensor:
        return model(x).square().sum()

    (gradient,) = torch.autograd.grad(value(), [turns.eta])
    (by_hand,) = torch.autograd.grad(expected.square().sum(), [turns.eta])
    torch.testing.assert_close(gradient, by_hand)
    if start:
        differences = central_differences(lambda: float(value().detach()), turns.eta)
        torch.testing.assert_close(gradient, differences, rtol=1e-6, atol=1e-8)
    assert gradient.abs().min() > 0
    check_differentiable(turns, x, model.draw(lila.Draw(), torch.arange(3), x.dtype))


def test_a_model_has_a_sample_for_each_combination() -> None:
    flips = lila.Compose(lila.HorizontalFlip(), lila.VerticalFlip())
    with pytest.raises(lila.ArgumentError, match=r"has 4 combinations of outcomes.* but samples is 3"):
        lila.InvariantModel(nn.Flatten(), flips, samples=3)
    model = lila.InvariantModel(nn.Flatten(), flips, samples=16)
    assert model.with_samples(2).samples == 4
    assert model.with_samples(8).samples == 8


@pytest.mark.parametrize("library", ["torchvision", "kornia", "albumentations"])
def test_a_flip_is_exported_with_its_probability(library: str) -> None:
    code = lila.HorizontalFlip(init=0.25).export(library, lila.InputFormat((1, 8, 8)))
    compile(code, library, "exec")
    assert "HorizontalFlip(p=0.25)" in code


@pytest.mark.parametrize("family", FAMILIES)
def test_the_code_for_torch_is_the_learned_distribution(family: str) -> None:
    made = FAMILIES[family](init=0.2)
    x, noise = torch.rand(200, 2, 3, 3), torch.rand(200, 1) * 2 - 1
    names: dict[str, Any] = {}
    exec(made.export("torch", lila.InputFormat((2, 3, 3))), names)
    assert torch.equal(names["transform"](x, noise), made(x, noise[:, None])[:, 0])
    assert names["transform"](x[0]).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lila.HorizontalFlip(init=0.6), "none of them larger than what they leave"),
        (lambda: lila.HorizontalFlip(init=-0.1), "must be probabilities of horizontal flip"),
        (lambda: lila.QuarterTurns(init=[0.1, 0.1]), "init has 2 values for the probabilities of quarter turn"),
        (lambda: lila.HorizontalFlip(init=float("nan")), "must be probabilities"),
        (lambda: lila.QuarterTurns().check_shape((1, 4, 5)), "turns square images"),
        (lambda: lila.VerticalFlip()(torch.rand(2, 3), torch.zeros(2, 1, 1)), "need a channel dimension"),
        (lambda: lila.VerticalFlip().outcome_probability(torch.tensor([[[0.0], [2.0]]])), "others draw one"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(make: Any, message: str) -> None:
    with pytest.raises(lila.LilaError, match=message):
        make()
