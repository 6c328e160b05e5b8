from math import cos, cosh, pi, sin, sinh

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

import lila
from cases import AUGMENTATIONS
from lila.augment import AFFINE_2D
from oracles import central_differences

angles = st.floats(-pi, pi)


@given(angles, st.floats(0.1, pi))
def test_rotation_of_points_is_the_rotation_matrix(noise_angle: float, range_: float) -> None:
    rotation = lila.Rotation2d(init=range_).double()
    eps = noise_angle / pi
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    found = rotation(x, torch.tensor([[[eps]]], dtype=torch.float64))[0, 0]
    a = eps * rotation.ranges["rotation"]
    expected = torch.tensor([cos(a) - 2 * sin(a), sin(a) + 2 * cos(a)], dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_the_closed_form_of_a_rotation_is_its_matrix_exponential() -> None:
    rotation = lila.Rotation2d(init=2.0).double()
    noise = torch.rand(3, 4, 1, dtype=torch.float64) * 2 - 1
    torch.testing.assert_close(rotation.elements(noise), torch.linalg.matrix_exp(rotation.algebra(noise)))


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6))
def test_affine_elements_are_scipys_matrix_exponential(noise: list[float], ranges: list[float]) -> None:
    affine = lila.Affine2d(init=ranges).double()
    algebra = affine.algebra(torch.tensor([[noise]], dtype=torch.float64))[0, 0]
    summed = sum(e * r * np.array(g.matrix, float) for e, r, g in zip(noise, ranges, AFFINE_2D, strict=True))
    np.testing.assert_allclose(torch.linalg.matrix_exp(algebra).detach(), expm(summed), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x-translation", [[1, 0, 0.3], [0, 1, 0], [0, 0, 1]]),
        ("y-translation", [[1, 0, 0], [0, 1, 0.3], [0, 0, 1]]),
        ("rotation", [[cos(0.3), -sin(0.3), 0], [sin(0.3), cos(0.3), 0], [0, 0, 1]]),
        ("x-scale", [[np.exp(0.3), 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("y-scale", [[1, 0, 0], [0, np.exp(0.3), 0], [0, 0, 1]]),
        ("shear", [[cosh(0.3), sinh(0.3), 0], [sinh(0.3), cosh(0.3), 0], [0, 0, 1]]),
    ],
)
def test_each_generator_has_its_closed_form(name: str, expected: list[list[float]]) -> None:
    affine = lila.Affine2d([name], init=0.6).double()
    element = torch.linalg.matrix_exp(affine.algebra(torch.tensor([[[0.5]]], dtype=torch.float64)))[0, 0]
    torch.testing.assert_close(element, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-7)


def test_a_users_own_generators_move_points_and_translate_them_in_homogeneous_coordinates() -> None:
    shift = lila.Generator("shift", [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0]])
    squeeze = lila.Generator("squeeze", torch.diag(torch.tensor([1.0, -1.0, 0.0, 0.0])))
    family = lila.LiePoints([shift, squeeze], init=[1.0, 2.0])
    x = torch.tensor([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(family(x, torch.tensor([[[0.5, 0.0]]])), torch.tensor([[[1.5, 2.0, 4.0]]]))
    squeezed = family(x, torch.tensor([[[0.0, 0.5]]]))
    torch.testing.assert_close(squeezed, torch.tensor([[[np.e, 2 / np.e, 3.0]]]).float())


@given(st.integers(0, 2**32), st.sampled_from(["identity", "inverse"]))
def test_the_sign_of_eta_means_nothing(seed: int, parameterisation: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.rand(2, 1, 4, 4, generator=generator), torch.rand(2, 3, 6, generator=generator) * 2 - 1
    affine = lila.Affine2d(init=0.3, parameterisation=parameterisation)
    views = affine(x, noise)
    ranges = affine.ranges
    with torch.no_grad():
        affine.eta.neg_()
    torch.testing.assert_close(affine(x, -noise), views)
    assert affine.ranges == pytest.approx(ranges)


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_zero_noise_leaves_images_as_they_are(augmentation: str) -> None:
    made = AUGMENTATIONS[augmentation]().double()
    x = torch.rand(2, 2, 5, 6, dtype=torch.float64)
    views = made(x, torch.zeros(2, 3, made.noise_dim, dtype=torch.float64))
    torch.testing.assert_close(views, x.unsqueeze(1).expand(2, 3, 2, 5, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("parameterisation", ["identity", "softplus", "inverse"])
def test_a_rotation_saturates_at_a_half_turn_and_can_come_back(parameterisation: str, dtype: torch.dtype) -> None:
    affine = lila.Affine2d(["rotation", "x-scale"], init=[4.0, 4.0], parameterisation=parameterisation).to(dtype)
    assert affine.ranges == pytest.approx({"rotation": pi, "x-scale": 4.0})
    affine.saturate_()
    affine.limited_ranges().sum().backward()
    assert affine.eta.grad is not None
    assert affine.eta.grad.abs().min() > 0
    assert affine.ranges == pytest.approx({"rotation": pi, "x-scale": 4.0})


@pytest.mark.parametrize(("parameterisation", "expected"), [("identity", -pi), ("inverse", -1 / pi)])
def test_a_negative_rotation_beyond_a_half_turn_keeps_its_sign(parameterisation: str, expected: float) -> None:
    rotation = lila.Rotation2d(init=-4.0, parameterisation=parameterisation)
    rotation.saturate_()
    assert rotation.eta.tolist() == pytest.approx([expected])


def test_a_range_that_is_not_a_number_stays_one() -> None:
    rotation = lila.Rotation2d()
    torch.nn.init.constant_(rotation.eta, float("nan"))
    assert rotation.limited_ranges().isnan().all()
    rotation.saturate_()
    assert rotation.eta.isnan().all()


def test_ranges_in_a_persons_units() -> None:
    affine = lila.Affine2d(init=[0.25, 0.5, pi / 2, 0.0, np.log(2), 0.1])
    assert affine.readable_ranges((3, 20, 32)) == {
        "x-translation": "±4.00 px",
        "y-translation": "±8.00 px",
        "rotation": "±90.0°",
        "x-scale": "×1.00 to ×1.00",
        "y-scale": "×0.50 to ×2.00",
        "shear": "×0.90 to ×1.11",
    }
    assert "rotation=1.57" in repr(affine)
    assert affine.readable("rotation", pi, (3, 20, 32)) == "±180.0°"  # of any value, not only of the learned one
    with pytest.raises(lila.ArgumentError, match="Affine2d has no range named 'zoom'; its ranges are x-translation"):
        affine.readable("zoom", 1.0, (3, 20, 32))
    assert [affine.noise_index(name) for name in affine.ranges] == list(range(6))
    assert lila.Affine2d(["x-scale"], init=1000.0).readable_ranges((1, 8, 8)) == {"x-scale": "×10^-434 to ×10^434"}


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_gradient_in_the_parameters_is_that_of_central_differences(augmentation: str, padding: str) -> None:
    made = AUGMENTATIONS[augmentation]().double()
    x = torch.rand(2, 2, 6, 5, dtype=torch.float64)
    noise = torch.rand(2, 3, made.noise_dim, dtype=torch.float64) * 2 - 1
    weights = torch.randn(2, 3, 2, 6, 5, dtype=torch.float64)

    def value() -> torch.Tensor:
        return (made(x, noise) * weights).sum()

    parameters = list(made.parameters())
    for parameter, grad in zip(parameters, torch.autograd.grad(value(), parameters), strict=True):
        expected = central_differences(lambda: float(value().detach()), parameter)
        torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("parameterisation", "start"), [("identity", 0.0), ("softplus", 0.1), ("inverse", 0.1)])
def test_learning_starts_where_the_parameterisation_says(parameterisation: str, start: float) -> None:
    affine = lila.Affine2d(parameterisation=parameterisation)
    assert list(affine.ranges.values()) == pytest.approx([start] * 6)


@given(st.floats(1e-3, 50), st.sampled_from(["identity", "softplus", "inverse"]))
def test_a_parameterisation_and_its_inverse_agree(range_: float, name: str) -> None:
    rotation = lila.LiePoints([lila.Generator("g", [[0.0, 1.0], [0.0, 0.0]])], init=range_, parameterisation=name)
    assert rotation.ranges["g"] == pytest.approx(range_, rel=1e-5)


@pytest.mark.parametrize("name", ["softplus", "inverse"])
def test_a_range_without_a_parameter_is_refused(name: str) -> None:
    with pytest.raises(lila.ArgumentError, match=f"The {name} parameterisation has no parameter for a range of 0"):
        lila.Affine2d(init=0.0, parameterisation=name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lila.Affine2d(["turning"]), "no generator 'turning'; choose from x-translation"),
        (lambda: lila.Affine2d(padding="wrap"), "no padding named 'wrap'; choose one of 'zeros'"),
        (lambda: lila.Affine2d(parameterisation="log"), "no parameterisation named 'log'"),
        (lambda: lila.Affine2d(init=[1.0, 2.0]), "init has 2 values for 6 generators"),
        (lambda: lila.Affine2d([]), "at least one generator"),
        (lambda: lila.Affine2d(init=float("nan")), "init must be finite"),
        (lambda: lila.Affine2d(["rotation", "rotation"]), "different names"),
        (lambda: lila.LiePoints([lila.Generator("g", [[1.0, 2.0]])]), "square matrices of one size"),
        (lambda: lila.LieImages([lila.Generator("g", [[0.0, 1.0], [1.0, 0.0]])]), "3 x 3 with a last row of zeros"),
        (lambda: lila.Affine2d()(torch.rand(2, 28, 28), torch.zeros(2, 1, 6)), r"need a channel dimension"),
        (lambda: lila.Affine2d()(torch.rand(2, 1, 4, 4), torch.zeros(2, 1, 5)), r"noise of shape \(2, samples, 6\)"),
        (lambda: lila.Rotation2d()(torch.rand(2, 5), torch.zeros(2, 1, 1)), r"move points of shape \(batch, 2\)"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(lila.LilaError, match=message):
        make()
