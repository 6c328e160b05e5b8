"""A two-dimensional classification problem with a soft rotational invariance (appendix on toy examples)."""

from math import pi

import torch
from torch import Tensor

REACH = pi / 3
"""The largest angle by which a point is turned: 60 degrees."""

_NOISE = 0.06
_RADII = (0.5, 0.5, 0.5, 0.0, 1.0, 1.0)  # the radii of six consecutive points: three of class 0, three of class 1
_CLASSES = (0, 0, 0, 1, 1, 1)


def arcs(examples: int = 200, seed: int = 0, reach: float = REACH) -> tuple[Tensor, Tensor]:
    """Points on arcs about the origin: class 0 at radius 0.5; class 1 at radius 1 (two thirds) and at the origin.

    Each point starts on the x axis, is moved by Gaussian noise of standard deviation 0.06, and is turned about the
    origin by a uniform angle of up to `reach` in either direction. The label does not depend on that angle.

    Args:
        examples: the number of points.
        seed: the seed of the noise and the angles.
        reach: the largest angle, in radians.

    Returns:
        Points of shape (examples, 2) and classes 0 or 1 of shape (examples,).
    """
    kind = torch.arange(examples) % len(_RADII)
    generator = torch.Generator().manual_seed(seed)
    base = torch.stack([torch.tensor(_RADII)[kind], torch.zeros(examples)], dim=1)
    moved = base + _NOISE * torch.randn(examples, 2, generator=generator)
    angle = reach * (2 * torch.rand(examples, generator=generator) - 1)
    c, s = angle.cos(), angle.sin()
    x, y = moved.unbind(1)
    return torch.stack([c * x - s * y, s * x + c * y], dim=1), torch.tensor(_CLASSES)[kind]
