"""The cost of each family of augmentations and of its gradient, in units of the affine warp's.

Images are transformed by both families. Time series and point clouds have as many values as the images have. The
rotation of kornia is measured if kornia is installed.

    python -m lila.benchmarks.family_speed
"""

import importlib
import importlib.util
from collections.abc import Sequence
from math import pi
from typing import Any

import torch
from torch import Tensor

from lila.augment import Affine2d, Augmentation, Colour, HorizontalFlip, PointCloud, QuarterTurns, TimeSeries
from lila.augment.noise import Draw
from lila.benchmarks.measuring import ratios
from lila.benchmarks.script import new_parser, print_result, start
from lila.integrations.kornia import Kornia, KorniaRange


def families(side: int) -> dict[str, tuple[Augmentation, tuple[int, ...]]]:
    """Return each family, with the shape of an input that has as many values as a colour image of this side."""
    pixels = side * side
    return {
        "correlated-affine": (Affine2d(init=0.1, correlated=True), (3, side, side)),
        "off-centre-affine": (Affine2d(init=0.1, offset=True), (3, side, side)),
        "horizontal-flip": (HorizontalFlip(init=0.25), (3, side, side)),
        "quarter-turns": (QuarterTurns(init=0.2), (3, side, side)),
        "colour": (Colour(init=0.1), (3, side, side)),
        "colour without gamma": (Colour(["brightness", "contrast", "saturation", "hue"], init=0.1), (3, side, side)),
        "series": (TimeSeries(init=0.1), (3, pixels)),
        "point-cloud": (PointCloud(init=0.1), (pixels, 3)),
        "point-cloud with jitter": (PointCloud(["scale", "jitter"], init=0.1, points=pixels), (pixels, 3)),
        **_of_kornia(side),
    }


def _of_kornia(side: int) -> dict[str, tuple[Augmentation, tuple[int, ...]]]:
    if importlib.util.find_spec("kornia") is None:
        return {}
    rotate = importlib.import_module("kornia.geometry.transform").rotate
    angle = KorniaRange("rotation", argument="angle", scale=180 / pi, limit=pi)
    return {"kornia's rotation": (Kornia(rotate, [angle], init=0.1), (3, side, side))}


def measure(augmentation: Augmentation, shape: tuple[int, ...], arguments: Any) -> dict[str, float]:
    """Return the time of the views and the time of their gradient, each divided by the affine warp's."""
    affine = Affine2d(init=0.1)
    ours = _Work(augmentation, shape, arguments.examples, arguments.samples)
    unit = _Work(affine, (3, arguments.side, arguments.side), arguments.examples, arguments.samples)
    with torch.no_grad():
        (forward,) = ratios([ours.views], unit.views, arguments.repeats)
    if augmentation.outcomes:  # the probabilities of outcomes weigh the views, which do not depend on them
        return {"views": round(forward, 2)}
    (both,) = ratios([ours.gradient], unit.gradient, arguments.repeats)
    return {"views": round(forward, 2), "views and gradient": round(both, 2)}


class _Work:
    """An augmentation with inputs and noise."""

    def __init__(self, augmentation: Augmentation, shape: tuple[int, ...], examples: int, samples: int) -> None:
        self.augmentation, self.parameters = augmentation, list(augmentation.parameters())
        self.x = torch.rand(examples, *shape, generator=torch.Generator().manual_seed(0))
        self.noise = Draw().uniform(torch.arange(examples), (samples, augmentation.noise_dim), torch.float32)
        self.cotangent = torch.randn(self.views().shape, generator=torch.Generator().manual_seed(1))

    def views(self) -> Tensor:
        made: Tensor = self.augmentation(self.x, self.noise)
        return made

    def gradient(self) -> tuple[Tensor, ...]:
        return torch.autograd.grad(self.views(), self.parameters, self.cotangent)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and print the result as JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--examples", type=int, default=32, metavar="N", help="images [32]")
    parser.add_argument("--samples", type=int, default=16, metavar="N", help="views of each [16]")
    parser.add_argument("--side", type=int, default=32, metavar="PIXELS", help="of an image [32]")
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="of which the median is taken [9]")
    arguments = start(parser, given)
    measured = {name: measure(*family, arguments) for name, family in families(arguments.side).items()}
    print_result(arguments, {"in units of the affine warp": measured})


if __name__ == "__main__":
    main()
