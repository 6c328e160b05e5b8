"""From learned ranges to the parameters that affine augmentations of other libraries take.

lila draws exp(sum_i eps_i r_i G_i) with independent eps_i in [-1, 1]. Other libraries draw a translation, a rotation, a
scaling and a shear independently, and multiply them. A single generator at the end of its range gives the same map in
both (the tests compare the warped images). The differences are:

- A product of several maps is not the exponential of a sum; the difference is of second order in the ranges.
- lila's scale is uniform in its logarithm, the others' in the factor; the ends agree.
- torchvision and albumentations round shifts to whole pixels, and no library shifts by more than the image's side.
- Correlations between ranges are lost, except for that of the two scales: if it is large enough, both axes are scaled
  by one factor.
- lila's shear is symmetric: it stretches by exp(r) along one diagonal and by exp(-r) along the other. The others shift
  each row sideways by gamma times its height, which has the principal stretches exp(+-asinh(gamma / 2)) and also turns
  by atan(gamma / 2). The shear with the same stretches has gamma = 2 sinh(r).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from math import atan, degrees, exp, sinh

from lila.augment.base import InputFormat
from lila.augment.warp import Padding

_SAME = 0.8  # the correlation of the two scales from which on they are exported as one


@dataclass(frozen=True)
class AffineParameters:
    """The parameters of an affine augmentation that other libraries share.

    Attributes:
        degrees: the largest rotation.
        translate: the largest shift to each side, as shares of width and height.
        scale_x: the smallest and the largest scale factor along x.
        scale_y: the smallest and the largest scale factor along y.
        shear: the largest angle of a shear along x, in degrees.
        padding: what lies outside the image.
        same_scale: whether both axes are scaled by one factor.
        mean: the mean of each channel that is subtracted from pixels in [0, 1] before the transformation.
        std: the number by which each channel is divided afterwards.
    """

    degrees: float
    translate: tuple[float, float]
    scale_x: tuple[float, float]
    scale_y: tuple[float, float]
    _: KW_ONLY
    shear: float
    padding: Padding
    same_scale: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]


def affine_parameters(
    ranges: Mapping[str, float],
    inputs: InputFormat,
    padding: str | Padding = "zeros",
    *,
    scale_correlation: float = 0.0,
) -> AffineParameters:
    """Return the parameters that stand for learned ranges.

    Args:
        ranges: the ranges by generator of `lila.augment.AFFINE_2D`; generators that are left out have a range of 0.
        inputs: the images that are transformed.
        padding: what lies outside the image.
        scale_correlation: the correlation of the two scales.
    """
    r = defaultdict(float, ranges)
    height, width = inputs.shape[-2:]
    half = max(height, width) / 2  # the unit of a shift, in pixels
    return AffineParameters(
        degrees=degrees(r["rotation"]),
        translate=(min(r["x-translation"] * half / width, 1.0), min(r["y-translation"] * half / height, 1.0)),
        scale_x=(exp(-r["x-scale"]), exp(r["x-scale"])),
        scale_y=(exp(-r["y-scale"]), exp(r["y-scale"])),
        shear=degrees(atan(2 * sinh(r["shear"]))),
        padding=Padding(padding),
        same_scale=scale_correlation >= _SAME,
        mean=inputs.mean,
        std=inputs.std,
    )
