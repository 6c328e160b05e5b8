"""What every family of ranges must hold: identity at zero, gradients, the distribution of each view, exported code."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import lila
from lila.augment import CLOUDS, COLOUR, SERIES, InputFormat, NamedRanges
from lila.augment.checks import check_differentiable
from lila.augment.registry import build_augmentation, describe_augmentation
from oracles import central_differences

POINTS = 5


@dataclass(frozen=True)
class Family:
    """A family with inputs of its shape, and how its coefficients can be read off a view.

    Attributes:
        make: makes it from the names of its ranges and their starts.
        names: all of its ranges.
        shape: of an input.
        measures: by the name of a range, the coefficient of views (n, *shape) of the input (*shape).
    """

    make: Callable[..., NamedRanges]
    names: tuple[str, ...]
    shape: tuple[int, ...]
    measures: dict[str, Callable[[Tensor, Tensor], Tensor]]

    def inputs(self, count: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(count, *self.shape, generator=generator, dtype=torch.float64)


def hue(view: Tensor, x: Tensor) -> Tensor:
    """The angle between the colours of one pixel, about the grey axis."""
    u = torch.tensor([1.0, -1.0, 0.0], dtype=x.dtype) / 2**0.5
    v = torch.tensor([1.0, 1.0, -2.0], dtype=x.dtype) / 6**0.5
    before = torch.atan2(v @ x[:, 0, 0], u @ x[:, 0, 0])
    after = torch.atan2(view[:, :, 0, 0] @ v, view[:, :, 0, 0] @ u)
    return (after - before + pi) % (2 * pi) - pi


def ratio(view: Tensor, x: Tensor) -> Tensor:
    return view.flatten(1)[:, 0] / x.flatten()[0] - 1


def channel(i: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda view, x: view[:, i, 0, 0] / x[i, 0, 0] - 1


def difference(view: Tensor, x: Tensor, i: int) -> Tensor:
    """How much larger the difference of two pixels or channels of grey is, as a factor minus 1."""
    return (view.flatten(1)[:, 0] - view.flatten(1)[:, i]) / (x.flatten()[0] - x.flatten()[i]) - 1


def turned(i: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The angle about the i-th axis."""
    j, k = (i + 1) % 3, (i + 2) % 3
    return lambda view, x: (
        (torch.atan2(view[:, 0, k], view[:, 0, j]) - torch.atan2(x[0, k], x[0, j]) + pi) % (2 * pi) - pi
    )


RAMP = torch.linspace(-40 / 41, 40 / 41, 41, dtype=torch.float64)  # x(u) = u

FAMILIES: dict[str, Family] = {
    "colour": Family(
        lila.Colour,
        tuple(entry.name for entry in COLOUR),
        (3, 4, 5),
        {
            "brightness": ratio,
            "contrast": lambda view, x: difference(view, x, 1),
            "saturation": lambda view, x: difference(view, x, 20),
            "hue": hue,
            "gamma": lambda view, x: (view.flatten(1)[:, 0].log() / x.flatten()[0].log()).log(),
            "red": channel(0),
            "green": channel(1),
            "blue": channel(2),
        },
    ),
    "series": Family(
        lila.TimeSeries,
        tuple(entry.name for entry in SERIES),
        (2, 41),
        {
            # of the ramp, read near the middle, where no end is near
            "shift": lambda view, x: -view[:, 0, 20],
            "dilation": lambda view, x: -(view[:, 0, 21] / x[0, 21]).log(),
            "amplitude": lambda view, x: view[:, 0, 25] / x[0, 25] - 1,
            "offset": lambda view, x: view[:, 0, 20] - x[0, 20],
        },
    ),
    "clouds": Family(
        lambda names, **options: lila.PointCloud(names, points=POINTS, **options),
        tuple(entry.name for entry in CLOUDS),
        (POINTS, 3),
        {
            **{f"{axis}-rotation": turned(i) for i, axis in enumerate("xyz")},
            **{f"{a}-translation": lambda view, x, i=i: view[:, 0, i] - x[0, i] for i, a in enumerate("xyz")},  # type: ignore[misc]
            "scale": ratio,
            "jitter": lambda view, x: view[:, 0, 0] - x[0, 0],
        },
    ),
}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
each_range = pytest.mark.parametrize(
    ("family", "name"),
    [pytest.param(family, name, id=name) for family in FAMILIES.values() for name in family.measures],
)


@each_family
@pytest.mark.parametrize("init", [0.0, 0.3])
def test_zero_ranges_and_zero_noise_leave_inputs_as_they_are(family: Family, init: float) -> None:
    made = family.make(family.names, init=init).double()
    x = family.inputs(2)
    noise = torch.rand(2, 3, made.noise_dim, dtype=torch.float64) * 2 - 1
    views = made(x, noise if init == 0 else 0 * noise)
    torch.testing.assert_close(views, x.unsqueeze(1).expand_as(views), rtol=1e-12, atol=1e-12)


@each_family
@pytest.mark.parametrize("init", [0.0, 0.2])
def test_gradients_in_the_ranges_are_those_of_central_differences(family: Family, init: float) -> None:
    made = family.make(family.names, init=init).double()
    x = family.inputs(2)
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand(2, 3, made.noise_dim, generator=generator, dtype=torch.float64) * 2 - 1
    weights = torch.randn(2, 3, *family.shape, generator=generator, dtype=torch.float64)

    def value() -> Tensor:
        return (made(x, noise) * weights).sum()

    if init == 0 and "shift" in family.names:
        pytest.skip("at zero each value of a series lies on a kink of its interpolation")
    (gradient,) = torch.autograd.grad(value(), made.eta)
    torch.testing.assert_close(
        gradient, central_differences(lambda: float(value().detach()), made.eta), rtol=1e-6, atol=1e-7
    )
    check_differentiable(made, x, noise)


@each_range
@pytest.mark.parametrize("stratified", [False, True])
def test_the_coefficient_of_each_view_is_uniform_on_its_range(family: Family, name: str, stratified: bool) -> None:
    range_ = 0.4
    made = family.make([name], init=range_).double()
    x = RAMP.expand(2, -1) if "shift" in family.names else family.inputs(1)[0]
    draw, index = lila.Draw(seed=3), torch.arange(400)
    shape = (3, made.noise_dim)
    noise = draw.stratified(index, shape, torch.float64) if stratified else draw.uniform(index, shape, torch.float64)
    with torch.no_grad():
        views = made(x.expand(400, *x.shape), noise)
    for s in range(3):
        found = family.measures[name](views[:, s], x)
        torch.testing.assert_close(found, made.ranges[name] * noise[:, s, made.noise_index(name)], rtol=1e-9, atol=1e-9)
        assert stats.kstest(found.numpy(), stats.uniform(-range_, 2 * range_).cdf).pvalue > 1e-3


def test_a_warp_moves_times_by_sine_waves_and_jitter_each_coordinate_by_its_own_noise() -> None:
    series = lila.TimeSeries(["warp"], init=0.1).double()
    noise = torch.rand(4, 2, 3, dtype=torch.float64) * 2 - 1
    waves = torch.stack([torch.sin(k * pi / 2 * (RAMP + 1)) / k for k in (1, 2, 3)])
    views = series(RAMP.expand(4, 1, -1), noise)[:, :, 0]
    expected = RAMP - series.ranges["warp"] * noise @ waves
    torch.testing.assert_close(views.clamp(RAMP[0], RAMP[-1]), expected.clamp(RAMP[0], RAMP[-1]))
    clouds = lila.PointCloud(["jitter", "scale"], init=[0.1, 0.0], points=POINTS).double()
    x, noise = FAMILIES["clouds"].inputs(4), torch.rand(4, 2, 16, dtype=torch.float64) * 2 - 1
    own = noise[:, :, [0, *range(2, 16)]]  # the second is the noise of the scale
    moved = (clouds(x, noise) - x.unsqueeze(1)).flatten(2)
    torch.testing.assert_close(moved, clouds.ranges["jitter"] * own)


@each_family
def test_exported_code_is_the_same_distribution(family: Family) -> None:
    made = family.make(family.names, init=0.2).double()
    inputs = InputFormat(family.shape, (0.1,) * family.shape[0], (0.5,) * family.shape[0])
    made.adapt(inputs)
    x = family.inputs(3)
    noise = torch.rand(3, 1, made.noise_dim, dtype=torch.float64) * 2 - 1
    written: dict[str, Any] = {}
    exec(made.export("torch", inputs), written)
    torch.testing.assert_close(
        written["transform"](x, noise[:, 0]), made(x, noise)[:, 0].detach(), rtol=1e-5, atol=1e-5
    )
    assert written["transform"](x.float()).shape == x.shape  # by noise of its own
    assert made.export_json(inputs)["ranges"] == pytest.approx(dict.fromkeys(family.names, 0.2))


@each_family
def test_it_is_described_and_made_again(family: Family) -> None:
    made = family.make(family.names[:2], init=0.2, parameterisation="softplus")
    made.adapt(InputFormat(family.shape, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))
    description = describe_augmentation(made)
    assert description is not None
    again = build_augmentation(description)
    again.load_state_dict(made.state_dict())
    assert again.ranges == made.ranges
    x = family.inputs(2).float()
    noise = torch.rand(2, 3, made.noise_dim)
    torch.testing.assert_close(again(x, noise), made(x, noise))


@each_family
def test_ranges_saturate_at_their_limits_and_keep_their_gradient(family: Family) -> None:
    made = family.make(family.names, init=100.0)
    made.saturate_()
    made.limited_ranges().sum().backward()
    assert made.eta.grad is not None
    assert made.eta.grad.abs().min() > 0
    assert set(made.readable_ranges(family.shape)) == set(family.names)
    assert all(0 <= share <= 1 for share in made.shares.values())


@each_family
def test_float32_gives_float32_and_one_view_is_enough(family: Family) -> None:
    made = family.make(family.names, init=0.1)
    x = family.inputs(2).float()
    views = made(x, torch.rand(2, 1, made.noise_dim))
    assert views.dtype == torch.float32
    assert views.shape == (2, 1, *family.shape)
    torch.testing.assert_close(
        made(x[:1].expand(3, *family.shape), torch.zeros(3, 4, made.noise_dim)), x[:1].expand(3, 4, *family.shape)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lila.Colour(["colour"]), "Colour has no range 'colour'; choose from brightness, contrast"),
        (lambda: lila.Colour([]), "needs at least one range"),
        (lambda: lila.Colour(["hue", "hue"]), "different names"),
        (lambda: lila.Colour(std=0.0), "must be positive"),
        (lambda: lila.Colour().check_shape((1, 4, 4)), "Grey images have no saturation or hue. Use generators="),
        (lambda: lila.Colour().check_shape((4, 4)), r"\(channels, height, width\) with 1 or 3 channels"),
        (lambda: lila.Colour(mean=[0.0, 0.0]).check_shape((3, 4, 4)), "2 values of mean for images of 3 channels"),
        (
            lambda: lila.Colour(init=0.1).export("torchvision", InputFormat((3, 4, 4))),
            "torchvision has no random gamma",
        ),
        (lambda: lila.TimeSeries(padding="wrap"), "no padding named 'wrap'"),
        (lambda: lila.TimeSeries().check_shape((3, 4, 4)), r"series of shape \(channels, time\)"),
        (lambda: lila.TimeSeries().check_shape((3, 1)), "at least 2 values in time"),
        (lambda: lila.TimeSeries(init=[0.1]), "init has 1 values for 5"),
        (lambda: lila.PointCloud(["jitter"]), "needs the number of points"),
        (lambda: lila.PointCloud().check_shape((5, 2)), r"clouds of shape \(points, 3\)"),
        (lambda: lila.PointCloud(["jitter"], points=4).check_shape((5, 3)), "made for clouds of 4 points, but these"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(make: Callable[[], object], message: str) -> None:
    with pytest.raises(lila.LilaError, match=message):
        make()
