"""Correlated and off-centre ranges: the distribution of the coefficients, its gradients, its limits and its words."""

from math import log, pi, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

import lila
from lila.augment.registry import build_augmentation, describe_augmentation
from oracles import central_differences

SCALES = ["x-scale", "y-scale"]


def coupled(rows: list[list[float]], names: list[str] = SCALES, **arguments: Any) -> lila.Affine2d:
    """A correlated family with a given matrix."""
    rank = len(rows[0]) if len(rows[0]) < len(rows) else None
    made = lila.Affine2d(names, correlated=True, rank=rank, **arguments)
    with torch.no_grad():
        made.eta.copy_(torch.tensor(rows))
    return made


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@pytest.mark.parametrize("arguments", [{"correlated": True}, {"correlated": True, "rank": 2}, {"offset": True}])
def test_a_range_of_zero_is_the_identity(arguments: dict[str, Any]) -> None:
    made = lila.Affine2d(init=0.0, **arguments).double()
    x = torch.rand(2, 1, 6, 5, dtype=torch.float64)
    torch.testing.assert_close(made(x, uniform(2, 3, made.noise_dim)), x[:, None].expand(2, 3, 1, 6, 5))
    assert set(made.ranges.values()) == {0.0}
    assert made.couplings() == ()


def test_correlated_ranges_start_from_independent_ones() -> None:
    made = lila.Affine2d(correlated=True)
    torch.testing.assert_close(made.eta.detach(), 0.1 * torch.eye(6))
    assert set(lila.Affine2d(offset=True).ranges.values()) == {0.0}


def test_a_start_has_the_ranges_asked_for_and_a_full_matrix_is_then_independent() -> None:
    ranges = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    noise = uniform(2, 3, 6)
    independent, full = lila.Affine2d(init=ranges), lila.Affine2d(init=ranges, correlated=True)
    torch.testing.assert_close(full.coefficients(noise), independent.coefficients(noise))
    assert list(full.ranges.values()) == pytest.approx(ranges)
    low = lila.Affine2d(init=ranges, correlated=True, rank=2)
    assert low.noise_dim == 2
    assert list(low.ranges.values()) == pytest.approx(ranges)


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize("offset", [False, True])
def test_gradients_are_those_of_central_differences(rank: int | None, offset: bool) -> None:
    made = lila.Affine2d(correlated=True, rank=rank, offset=offset).double()
    with torch.no_grad():
        made.eta.copy_(0.3 * uniform(*made.eta.shape, seed=1))
        made.eta[2] *= 3 * pi / made.eta[2].norm()  # beyond its limit
    x, weights = torch.rand(2, 2, 6, 5, dtype=torch.float64), uniform(2, 3, 2, 6, 5, seed=3)
    noise = uniform(2, 3, made.noise_dim, seed=2)

    def value() -> Tensor:
        return (made(x, noise) * weights).sum()

    parameters = list(made.parameters())
    assert len(parameters) == 1 + offset
    for parameter, gradient in zip(parameters, torch.autograd.grad(value(), parameters), strict=True):
        expected = central_differences(lambda: float(value().detach()), parameter)
        torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-7)
        assert gradient.abs().max() > 1e-3


def test_the_views_have_the_learned_covariance_and_the_range_is_that_of_a_uniform_with_their_deviation() -> None:
    made = coupled([[0.3, 0.4], [0.1, -0.2]], offset=True).double()
    torch.nn.init.constant_(made.get_parameter("centre"), 0.25)
    c = made.coefficients(uniform(1, 200_000, 2))[0].detach()
    R = made.eta.detach()
    torch.testing.assert_close(c.T.cov(), R @ R.T / 3, rtol=0.02, atol=5e-4)
    torch.testing.assert_close(c.mean(0), torch.full((2,), 0.25, dtype=torch.float64), rtol=0, atol=3e-3)
    assert list(made.ranges.values()) == pytest.approx((c.std(0) * sqrt(3)).tolist(), rel=0.02)
    assert float(made.correlations()[0, 1]) == pytest.approx(float(c.T.corrcoef()[0, 1]), abs=0.02)
    assert made.centres == pytest.approx({"x-scale": 0.25, "y-scale": 0.25})


def test_a_row_beyond_its_limit_is_shortened_and_keeps_its_direction_and_its_gradient() -> None:
    made = coupled([[3.0, 4.0], [0.5, 0.0]], ["rotation", "x-scale"])
    assert made.ranges == pytest.approx({"rotation": pi, "x-scale": 0.5})
    made.saturate_()
    torch.testing.assert_close(made.eta.detach(), torch.tensor([[0.6 * pi, 0.8 * pi], [0.5, 0.0]]))
    made.limited_ranges().sum().backward()
    assert made.eta.grad is not None
    torch.testing.assert_close(made.eta.grad, torch.tensor([[0.6, 0.8], [1.0, 0.0]]))
    torch.nn.init.constant_(made.eta, float("nan"))
    made.saturate_()
    assert made.coefficients(torch.ones(1, 1, 2)).isnan().all()


def test_couplings_tell_what_moves_together_and_leave_out_what_hardly_moves() -> None:
    together = coupled([[0.5, 0.0, 0.0], [0.49, 0.1, 0.0], [0.001, 0.0, 0.0]], [*SCALES, "shear"])
    (coupling,) = together.couplings()
    assert coupling.text() == "x-scale and y-scale move together, correlation 0.98"
    against = coupled([[0.5, 0.0], [-0.5, 0.0]])
    assert against.couplings()[0].text() == "x-scale and y-scale move against each other, correlation -1.00"
    assert coupled([[0.5, 0.0], [0.0, 0.5]]).couplings() == ()
    assert lila.Affine2d(init=0.5).couplings() == ()
    both = lila.Compose(lila.Affine2d(["x-scale"], init=0.1), together)
    assert (both.couplings()[0].first, both.couplings()[0].second) == ("x-scale 2", "y-scale")


def test_a_principal_direction_moves_the_coefficients_that_its_label_names() -> None:
    made = coupled([[log(2), 0.0], [-log(2), 0.0]])
    ((label, noise),) = made.directions((1, 8, 8)).items()
    assert label == "x-scale ×0.50 to ×2.00, y-scale ×0.50 to ×2.00 reversed"
    moved = made.coefficients(noise[None, None]).detach()
    torch.testing.assert_close(moved.abs(), torch.full((1, 1, 2), log(2)))
    growing = coupled([[log(2), 0.0], [0.9 * log(2), 0.0]])
    ((_, noise),) = growing.directions((1, 8, 8)).items()
    assert growing.coefficients(noise[None, None]).min() > 0
    assert made.noise_index("x-scale") is None
    turned = lila.Compose(lila.Affine2d(["rotation"], init=0.5), made)
    assert [noise.count_nonzero().item() for noise in turned.directions((1, 8, 8)).values()] == [1, 1]


def test_off_centre_ranges_are_told_from_end_to_end() -> None:
    made = lila.Affine2d(["x-translation", "rotation", "x-scale"], init=[0.25, 0.1, log(2)], offset=True)
    with torch.no_grad():
        assert made.centre is not None
        made.centre.copy_(torch.tensor([0.25, -0.1, -log(2)]))
    assert made.readable_ranges((1, 8, 8)) == {
        "x-translation": "+0.00 px to +2.00 px",
        "rotation": "-11.5° to +0.0°",
        "x-scale": "×0.25 to ×1.00",
    }
    with torch.no_grad():
        made.centre[1] = -4.0
    made.saturate_()
    assert made.centres["rotation"] == pytest.approx(-pi)


@pytest.mark.parametrize(
    "arguments", [{"correlated": True}, {"correlated": True, "rank": 2}, {"offset": True}, {"generators": SCALES}]
)
def test_a_description_makes_the_same_distribution_again(arguments: dict[str, Any]) -> None:
    made = lila.Affine2d(**arguments)
    description = describe_augmentation(made)
    assert description is not None
    again = build_augmentation(description)
    again.load_state_dict(made.state_dict())
    assert {k: v for k, v in description["arguments"].items() if k in ("correlated", "rank", "offset")} == {
        k: v for k, v in arguments.items() if k != "generators"
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 2}, "give correlated=True with it"),
        ({"correlated": True, "rank": 7}, "rank must be a whole number from 1 to 6, but is 7"),
        ({"correlated": True, "rank": 0}, "from 1 to 6, but is 0"),
        ({"correlated": True, "parameterisation": "softplus"}, "take parameterisation='identity' alone"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Affine2d(**arguments)


def test_exports_know_the_whole_distribution() -> None:
    inputs = lila.InputFormat((1, 9, 9))
    made = coupled([[0.5, 0.1], [0.49, -0.1]], offset=True)
    torch.nn.init.constant_(made.get_parameter("centre"), 0.2)
    assert list(made.exporters()) == ["torch"]
    names: dict[str, Any] = {}
    exec(made.export("torch", inputs), names)
    images, noise = torch.rand(3, 1, 9, 9), uniform(3, 2).float()
    torch.testing.assert_close(names["transform"](images, noise), made(images, noise[:, None])[:, 0], atol=1e-4, rtol=0)
    assert names["transform"](images).shape == images.shape
    record = made.export_json(inputs)
    assert record["mixing"][0] == pytest.approx([0.5, 0.1])
    assert record["centres"] == pytest.approx([0.2, 0.2])
    assert record["couplings"][0]["correlation"] == pytest.approx(made.couplings()[0].correlation)


def test_scales_that_move_together_are_exported_as_one_scale() -> None:
    inputs = lila.InputFormat((1, 9, 9))
    together, apart = coupled([[log(2), 0.0], [log(2), 0.0]]), coupled([[log(2), 0.0], [0.0, log(2)]])
    assert "scale=(0.5, 2.0)," in together.export("kornia", inputs)
    assert "scale=(0.5, 2.0, 0.5, 2.0)," in apart.export("kornia", inputs)
    assert "keep_ratio=True" in together.export("albumentations", inputs)
    assert "keep_ratio=False" in apart.export("albumentations", inputs)
