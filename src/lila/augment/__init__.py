"""Augmentation distributions: learnable distributions over transformations of the input.

Each family is one file; the lines at the end make the families known by name.
"""

from lila.augment.affine import AFFINE_2D, Affine2d
from lila.augment.base import Augmentation, InputFormat
from lila.augment.clouds import CLOUDS, PointCloud
from lila.augment.colour import COLOUR, Colour
from lila.augment.compose import Compose
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
    "Generator",
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
    "Range",
    "RangeFamily",
    "Rotation2d",
    "Softplus",
    "TimeSeries",
    "augmentation_names",
    "make_augmentation",
    "register_augmentation",
    "register_parameterisation",
    "warp",
]

register_augmentation("affine", Affine2d)
register_augmentation("rotation-of-points", Rotation2d)
register_augmentation("colour", Colour)
register_augmentation("series", TimeSeries)
register_augmentation("point-cloud", PointCloud)
