"""Learned transforms for the tests of pipelines, and torchvision."""

import sys
from math import pi
from types import ModuleType

import torch
from torch import Tensor

import lila

# torchvision's compiled operators have nothing to do with transformations, but without them it would not import.
sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))

HEIGHT, WIDTH = 20, 24
SHAPE = (3, HEIGHT, WIDTH)
RANGES = [0.2, 0.1, 0.8, 0.2, 0.3, 0.15]
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


def affine(padding: str = "zeros") -> lila.Affine2d:
    """All six generators."""
    return lila.Affine2d(init=RANGES, padding=padding)


def learned(scaled: bool = False, padding: str = "zeros") -> lila.LearnedTransform:
    """A transform of colour images with all six generators, for pixels in [0, 1] if they are scaled."""
    inputs = lila.InputFormat(SHAPE, MEAN, STD) if scaled else lila.InputFormat(SHAPE)
    return lila.LearnedTransform(affine(padding), inputs)


def quarter_turn(side: int = 8) -> lila.LearnedTransform:
    """A transform that turns square images by 90 degrees clockwise for noise 1."""
    return lila.LearnedTransform(lila.Affine2d(["rotation"], init=pi / 2), lila.InputFormat((3, side, side)))


ONE = torch.ones(1)


def spot(column: float, row: float, height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """An image (3, h, w) of a smooth bright spot."""
    y, x = torch.meshgrid(torch.arange(height) - row, torch.arange(width) - column, indexing="ij")
    return torch.exp(-(x**2 + y**2) / 4).expand(3, -1, -1).clone()


def centroid(image: Tensor) -> Tensor:
    """The mean (column, row) of an image (c, h, w), weighted by brightness."""
    bright = image.double().sum(0)
    rows, columns = (torch.arange(n, dtype=torch.float64) for n in bright.shape)
    return torch.stack([(bright.sum(0) * columns).sum(), (bright.sum(1) * rows).sum()]) / bright.sum()
