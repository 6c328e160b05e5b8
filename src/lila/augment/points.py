"""Lie groups that move points."""

from math import pi
from typing import Any

import torch
from torch import Tensor

from lila.augment.base import Shape
from lila.augment.lie import Generator, LieFamily, degrees
from lila.augment.parameterisation import Parameterisation
from lila.errors import DataError


class LiePoints(LieFamily):
    """Points moved by group elements: x' = exp(sum_i c_i G_i) x.

    Generators of size d act on points in R^d. Generators of size d + 1 act on them in homogeneous coordinates, so that
    they may translate too.
    """

    def check_shape(self, shape: Shape) -> None:
        size = self.generators.shape[-1]
        if len(shape) != 1 or shape[0] not in (size, size - 1):
            raise DataError(
                f"{type(self).__name__} has generators of size {size}, which move points of shape (batch, {size}), or "
                f"(batch, {size - 1}) in homogeneous coordinates, but one of its inputs has shape {shape}."
            )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        self.check_shape(tuple(x.shape[1:]))
        elements = self.elements(noise)
        if x.shape[1] == self.generators.shape[-1]:
            return torch.einsum("bsij,bj->bsi", elements, x)
        linear, shift = elements[..., :-1, :-1], elements[..., :-1, -1]
        return torch.einsum("bsij,bj->bsi", linear, x) + shift


class Rotation2d(LiePoints):
    """Rotations of points in the plane about the origin, by a uniform angle up to a learned range.

    Args:
        init: the range, in radians, from which learning starts; 0 if None.
        parameterisation: how the range is written as eta.
    """

    unit = "radians"

    def __init__(self, init: float | None = None, parameterisation: str | Parameterisation = "identity") -> None:
        rotation = Generator("rotation", [[0, -1], [1, 0]], limit=pi, unit=degrees)
        super().__init__([rotation], init, parameterisation)

    def elements(self, noise: Tensor) -> Tensor:
        """Return the matrix exponential in closed form, which is several times faster."""
        angle = self.coefficients(noise)[..., 0]
        c, s = angle.cos(), angle.sin()
        return torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2))

    def arguments(self) -> dict[str, Any] | None:
        name = self.parameterisation_name
        return None if name is None else {"parameterisation": name}
