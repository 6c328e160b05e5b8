"""Transformations of kornia with learned ranges; its rotation is ours."""

from collections.abc import Callable
from functools import partial
from math import pi
from pathlib import Path

import kornia
import pytest
import torch
from torch import Tensor, nn

import lila
from lila.augment.checks import check_differentiable
from oracles import central_differences

ROTATION = lila.KorniaRange("rotation", argument="angle", scale=180 / pi, limit=pi)
rotate = kornia.geometry.transform.rotate


def pictures(seed: int = 0, channels: int = 3, height: int = 9, width: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(2, channels, height, width, generator=generator, dtype=torch.float64)


def noises(k: int, s: int = 3) -> Tensor:
    return torch.rand(2, s, k, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1


@pytest.mark.parametrize("shape", [(9, 9), (8, 12)])
def test_its_rotation_is_ours(shape: tuple[int, int]) -> None:
    theirs = lila.Kornia(rotate, [ROTATION], init=1.2).double()
    ours = lila.Affine2d(["rotation"], init=1.2).double()
    x = pictures(0, 2, *shape)
    views = theirs(x, -noises(1))  # a positive angle turns x towards y here, and y towards x there
    torch.testing.assert_close(views, ours(x, noises(1)), rtol=1e-6, atol=1e-6)
    gradients = [
        torch.autograd.grad(v.square().sum(), a.eta)[0] for v, a in ((views, theirs), (ours(x, noises(1)), ours))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


def test_an_augmentation_module_gets_its_parameters() -> None:
    module = kornia.augmentation.RandomRotation(1.0, p=1.0, align_corners=True)
    by_module = lila.Kornia(module, [lila.KorniaRange("rotation", argument="degrees", scale=180 / pi)], init=0.7)
    by_function = lila.Kornia(rotate, [ROTATION], init=0.7)
    x, noise = pictures().float(), noises(1).float()
    torch.testing.assert_close(by_module(x, noise), by_function(x, noise), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(by_module(x, noise), by_module(x, noise))  # it draws nothing


FAMILIES: dict[str, Callable[[float], lila.Kornia]] = {
    "rotation": lambda init: lila.Kornia(rotate, [ROTATION], init),
    "translation": lambda init: lila.Kornia(
        kornia.geometry.transform.translate,
        [lila.KorniaRange(f"{axis}-shift", argument="translation", scale=4.0) for axis in "xy"],
        init,
    ),
    "gamma": lambda init: lila.Kornia(
        partial(kornia.enhance.adjust_gamma, gain=1.0),
        [lila.KorniaRange("gamma", argument="gamma", neutral=1.0)],
        init,
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_zero_changes_nothing_and_gradients_are_those_of_central_differences(name: str) -> None:
    x = pictures() * 0.8 + 0.1
    still = FAMILIES[name](0.0).double()
    torch.testing.assert_close(still(x, noises(still.noise_dim)), x.unsqueeze(1).expand(2, 3, 3, 9, 9))
    made = FAMILIES[name](0.3).double()
    weights = torch.randn(2, 3, 3, 9, 9, dtype=torch.float64)

    def value() -> Tensor:
        return (made(x, noises(made.noise_dim)) * weights).sum()

    (gradient,) = torch.autograd.grad(value(), made.eta)
    expected = central_differences(lambda: float(value().detach()), made.eta)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)
    check_differentiable(made, x, noises(made.noise_dim))


def test_colours_are_changed_in_pixels_and_scaled_as_before() -> None:
    learned = [lila.KorniaRange("saturation", argument="factor", neutral=1.0)]
    plain = lila.Kornia(kornia.enhance.adjust_saturation, learned, init=0.5, pixels=True).double()
    scaled = lila.Kornia(kornia.enhance.adjust_saturation, learned, init=0.5, pixels=True).double()
    mean, std = (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    scaled.adapt(lila.InputFormat((3, 9, 9), mean, std))
    offset, width = (torch.tensor(values, dtype=torch.float64)[:, None, None] for values in (mean, std))
    x = pictures()
    views = scaled((x - offset) / width, noises(1))
    torch.testing.assert_close(views * width + offset, plain(x, noises(1)))


def test_it_is_learned_and_loaded_by_passing_it(tmp_path: Path) -> None:
    x, y = pictures().float().repeat(4, 1, 1, 1), torch.arange(8) % 2
    net = nn.Sequential(nn.Flatten(), nn.Linear(243, 2))
    family = lila.Kornia(rotate, [ROTATION], init=0.1)
    run = lila.fit(net, (x, y), family, epochs=1, burn_in=0, samples=2, progress="silent")
    assert list(run.ranges) == ["rotation"]
    run.save(tmp_path / "run")
    with pytest.raises(lila.ArgumentError, match=r"pass it: lila\.load"):
        lila.load(tmp_path / "run")
    again = lila.load(tmp_path / "run", augmentation=lila.Kornia(rotate, [ROTATION]))
    assert again.ranges == run.ranges


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lila.Kornia(rotate, []), "at least one range"),
        (lambda: lila.Kornia("rotate", [ROTATION]), "needs a function or a module of kornia"),  # type: ignore[arg-type]
        (lambda: lila.Kornia(rotate, [ROTATION])(torch.rand(2, 4, 4), torch.zeros(2, 1, 1)), "transforms images"),
        (
            lambda: lila.Kornia(lambda x, angle: x[:, :1], [ROTATION])(pictures(), noises(1)),
            "must return images of the shape",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(lila.LilaError, match=message):
        make()


def test_an_argument_that_the_function_does_not_take_is_refused() -> None:
    with pytest.raises(lila.ArgumentError, match=r"'rotation' is of the argument 'angles', but .* takes tensor, angle"):
        lila.Kornia(rotate, [lila.KorniaRange("rotation", argument="angles")])
