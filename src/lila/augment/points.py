"""Lie groups that move points."""

from math import pi
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila.augment.base import Shape
from lila.augment.lie import Generator, LieFamily, degrees
from lila.augment.parameterisation import Parameterisation
from lila.errors import DataError


class LiePoints(LieFamily):
    """Points moved by group elements: x' = exp(sum_i c_i G_i) x.

    An input is one point, shape (d,), or a cloud of n points, shape (n, d), which move together. Generators of size d
    act on points in R^d. Generators of size d + 1 act on them in homogeneous coordinates, so that they may translate
    too.
    """

    def check_shape(self, shape: Shape) -> None:
        size = self.generators.shape[-1]
        if len(shape) not in (1, 2) or shape[-1] not in (size, size - 1):
            raise DataError(
                f"{type(self).__name__} has generators of size {size}, which move points of shape (batch, {size}) and "
                f"clouds of points of shape (batch, n, {size}), or, in homogeneous coordinates, (batch, {size - 1}) "
                f"and (batch, n, {size - 1}). But one of its inputs has shape {shape}."
            )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        self.check_shape(tuple(x.shape[1:]))
        return _moved(x, self.elements(noise))

    @torch.no_grad()
    def fixed(self, noise: Tensor) -> nn.Module:
        return FixedMotions(self.elements(noise[None])[0])


class FixedMotions(nn.Module):
    """Points or clouds under the same group elements.

    Args:
        elements: the group elements, shape (s, d, d).
    """

    elements: Tensor

    def __init__(self, elements: Tensor) -> None:
        super().__init__()
        self.register_buffer("elements", elements)

    def forward(self, x: Tensor) -> Tensor:
        """Return the views (b, s, *shape) of inputs (b, *shape)."""
        return _moved(x, self.elements.expand(x.shape[0], -1, -1, -1))


def _moved(x: Tensor, elements: Tensor) -> Tensor:
    """Move points (b, d) or clouds (b, n, d) by group elements (b, s, d, d), or (b, s, d + 1, d + 1)."""
    cloud = x if x.dim() == 3 else x.unsqueeze(1)  # (b, n, d)
    if x.shape[-1] == elements.shape[-1]:
        moved = torch.einsum("bsij,bnj->bsni", elements, cloud)
    else:
        linear, shift = elements[..., :-1, :-1], elements[..., None, :-1, -1]
        moved = torch.einsum("bsij,bnj->bsni", linear, cloud) + shift
    return moved if x.dim() == 3 else moved.squeeze(2)


@suggests_arguments
class Rotation2d(LiePoints):
    """Rotations of points in the plane about the origin, by a uniform angle up to a learned range.

    Args:
        init: the range, in radians, from which learning starts; 0 if None.
        parameterisation: how the range is written as eta.
    """

    unit = "radians"

    def __init__(self, init: float | None = None, parameterisation: str | Parameterisation = "identity") -> None:
        rotation = Generator("rotation", [[0, -1], [1, 0]], limit=pi, closes=True, unit=degrees)
        super().__init__([rotation], init, parameterisation)

    def elements(self, noise: Tensor) -> Tensor:
        """Return the matrix exponential in closed form, which is several times faster."""
        angle = self.coefficients(noise)[..., 0]
        c, s = angle.cos(), angle.sin()
        return torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2))

    def arguments(self) -> dict[str, Any] | None:
        name = self.parameterisation_name
        return None if name is None else {"parameterisation": name}
