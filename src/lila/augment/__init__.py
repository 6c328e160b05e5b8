"""Augmentation distributions: learnable distributions over transformations of the input.

Each family is one file; the lines at the end make the families known by name.
"""

from lila.augment.affine import AFFINE_2D, Affine2d
from lila.augment.base import Augmentation, Coupling, FullTurn, InputFormat
from lila.augment.clouds import CLOUDS, PointCloud
from lila.augment.colour import COLOUR, Colour
from lila.augment.compose import Compose
from lila.augment.discrete import DiscreteFamily, HorizontalFlip, QuarterTurns, VerticalFlip
from lila.augment.images import LieImages
from lila.augment.lie import Generator, LieFamily
from lila.augment.named import NamedRanges
from lila.augment.parameterisation import Identity, Inverse, Parameterisation, Softplus, register_parameterisation
from lila.augment.points import LiePoints, Rotation2d
from lila.augment.ranges import Range, RangeFamily
from lila.augment.registry import augmentation_names, make_augmentation, register_augmentation
from lila.augment.series import SERIES, TimeSeries
from lila.augment.warp import Padding, warp

__all__ = [
    "AFFINE_2D",
    "CLOUDS",
    "COLOUR",
    "SERIES",
    "Affine2d",
    "Augmentation",
    "Colour",
    "Compose",
    "Coupling",
    "DiscreteFamily",
    "FullTurn",
    "Generator",
    "HorizontalFlip",
    "Identity",
    "InputFormat",
    "Inverse",
    "LieFamily",
    "LieImages",
    "LiePoints",
    "NamedRanges",
    "Padding",
    "Parameterisation",
    "PointCloud",
    "QuarterTurns",
    "Range",
    "RangeFamily",
    "Rotation2d",
    "Softplus",
    "TimeSeries",
    "VerticalFlip",
    "augmentation_names",
    "make_augmentation",
    "register_augmentation",
    "register_parameterisation",
    "warp",
]

register_augmentation("affine", Affine2d)
register_augmentation("correlated-affine", Affine2d, correlated=True)
register_augmentation("off-centre-affine", Affine2d, offset=True)
register_augmentation("horizontal-flip", HorizontalFlip)
register_augmentation("vertical-flip", VerticalFlip)
register_augmentation("quarter-turns", QuarterTurns)
register_augmentation("rotation-of-points", Rotation2d)
register_augmentation("colour", Colour)
register_augmentation("series", TimeSeries)
register_augmentation("point-cloud", PointCloud)
