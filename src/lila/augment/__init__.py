"""Augmentation distributions: learnable distributions over transformations of the input."""

from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.augment.families import AFFINE_2D, Affine2d, LieImages, Rotation2d
from lila.augment.lie import Generator, LieFamily, LiePoints
from lila.augment.parameterisation import Identity, Inverse, Parameterisation, Softplus
from lila.augment.warp import Padding, warp

__all__ = [
    "AFFINE_2D",
    "Affine2d",
    "Augmentation",
    "Compose",
    "Generator",
    "Identity",
    "Inverse",
    "LieFamily",
    "LieImages",
    "LiePoints",
    "Padding",
    "Parameterisation",
    "Rotation2d",
    "Softplus",
    "warp",
]
