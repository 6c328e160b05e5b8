"""From learned ranges to the parameters that affine augmentations of other libraries take.

Ours is exp(sum_i eps_i r_i G_i) with independent eps_i in [-1, 1]; theirs is a product of a translation, a rotation, a
scaling and a shear, each drawn on its own. A single generator at the end of its range gives the same map in both (the
tests compare the warped images). What differs:

- A product of several maps is not the exponential of a sum; the difference is of second order in the ranges.
- Our scale is uniform in its logarithm, theirs in the factor; the ends agree.
- torchvision and albumentations round shifts to whole pixels, and no library shifts by more than the image's side.
- Our shear is symmetric: it stretches by exp(r) along one diagonal and by exp(-r) along the other. Theirs moves rows
  sidewise by gamma times their height, which has principal stretches exp(+-asinh(gamma / 2)) and turns by atan(gamma/2)
  besides. The one with the same stretches has gamma = 2 sinh(r).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import atan, degrees, exp, sinh

from lila.augment.families import AFFINE_2D
from lila.augment.warp import Padding
from lila.errors import ArgumentError
from lila.training.run import Run


@dataclass(frozen=True)
class Affine:
    """The parameters that other libraries share.

    Attributes:
        degrees: the largest rotation.
        translate: the largest shift to each side, as shares of width and height.
        scale_x: smallest and largest factor.
        scale_y: likewise.
        shear: the largest angle of a shear along x, in degrees.
        padding: what lies outside the image.
        mean: that is subtracted from the pixels, in [0, 1], before the transformation.
        std: by which they are divided then.
    """

    degrees: float
    translate: tuple[float, float]
    scale_x: tuple[float, float]
    scale_y: tuple[float, float]
    shear: float
    padding: Padding
    mean: tuple[float, ...]
    std: tuple[float, ...]


def affine_parameters(
    ranges: Mapping[str, float],
    shape: tuple[int, ...],
    padding: str | Padding = "zeros",
    mean: tuple[float, ...] = (0.0,),
    std: tuple[float, ...] = (1.0,),
) -> Affine:
    """The parameters of learned ranges.

    Args:
        ranges: by generator of `AFFINE_2D`; those left out are 0.
        shape: of an image, (channels, height, width).
        padding: of the augmentation.
        mean: of the scaling of pixels that comes first.
        std: likewise.
    """
    r = {generator.name: 0.0 for generator in AFFINE_2D} | dict(ranges)
    height, width = shape[-2:]
    half = max(height, width) / 2  # the unit of a shift, in pixels
    return Affine(
        degrees(r["rotation"]),
        (min(r["x-translation"] * half / width, 1.0), min(r["y-translation"] * half / height, 1.0)),
        (exp(-r["x-scale"]), exp(r["x-scale"])),
        (exp(-r["y-scale"]), exp(r["y-scale"])),
        degrees(atan(2 * sinh(r["shear"]))),
        Padding(padding),
        mean,
        std,
    )


def run_parameters(run: Run, mean: tuple[float, ...], std: tuple[float, ...]) -> Affine:
    """The parameters of a run's learned ranges."""
    known = {generator.name for generator in AFFINE_2D}
    if not run.ranges or not set(run.ranges) <= known:
        raise ArgumentError(
            f"Only affine augmentations of images can be exported, but this run's ranges are {dict(run.ranges)}."
        )
    padding = getattr(run.model.augmentation, "padding", Padding.ZEROS)
    return affine_parameters(run.ranges, run.shape, padding, mean, std)
