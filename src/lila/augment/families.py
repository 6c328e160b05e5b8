"""The augmentation families that come with lila."""

from collections.abc import Sequence
from math import pi
from typing import Any

import torch
from torch import Tensor

from lila._util.choices import choose
from lila.augment.exponential import affine_exp
from lila.augment.lie import Generator, LieFamily, LiePoints, degrees, pixels, scale_factor
from lila.augment.parameterisation import Parameterisation
from lila.augment.warp import Padding, warp
from lila.errors import ArgumentError, DataError

AFFINE_2D: tuple[Generator, ...] = (
    Generator("x-translation", [[0, 0, 1], [0, 0, 0], [0, 0, 0]], unit=pixels),
    Generator("y-translation", [[0, 0, 0], [0, 0, 1], [0, 0, 0]], unit=pixels),
    Generator("rotation", [[0, -1, 0], [1, 0, 0], [0, 0, 0]], limit=pi, unit=degrees),
    Generator("x-scale", [[1, 0, 0], [0, 0, 0], [0, 0, 0]], unit=scale_factor),
    Generator("y-scale", [[0, 0, 0], [0, 1, 0], [0, 0, 0]], unit=scale_factor),
    Generator("shear", [[0, 1, 0], [1, 0, 0], [0, 0, 0]], unit=scale_factor),
)
"""The paper's six generators, in its order. A shear is symmetric: it stretches along one diagonal by the factor
exp(range) and shrinks along the other. A positive angle turns x towards y, which is clockwise where y points down."""


class LieImages(LieFamily):
    """Images warped by a Lie group of the plane: x'(p) = x(exp(sum_i eps_i r_i G_i)^-1 p), resampled bilinearly.

    Args:
        generators: 3 x 3 matrices in homogeneous coordinates; see `lila.augment.warp` for the origin and the unit.
        padding: what lies outside the image: "zeros", "border" or "reflection".
        init: the range from which each generator starts.
        parameterisation: how a range is written as eta.
    """

    def __init__(
        self,
        generators: Sequence[Generator],
        padding: str | Padding = "zeros",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        super().__init__(generators, init, parameterisation)
        if self.generators.shape[-1] != 3 or self.generators[:, 2].any():
            raise ArgumentError(
                "Generators that act on images are 3 x 3 with a last row of zeros (affine maps in homogeneous "
                f"coordinates), but these are {self.generators.tolist()}."
            )
        self.padding = choose(Padding, padding, "padding")

    def elements(self, noise: Tensor) -> Tensor:
        return affine_exp(self.algebra(noise))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        if x.dim() != 4:
            raise DataError(
                f"{type(self).__name__} transforms images of shape (batch, channels, height, width), but the inputs "
                f"have shape {tuple(x.shape)}. Grey images need a channel dimension: x.unsqueeze(1)."
            )
        self.check_noise(x, noise)
        return warp(x, self.elements(-noise), self.padding)


class Affine2d(LieImages):
    """The paper's distribution over affine maps of an image, with a learned range for each of six generators.

    Args:
        generators: names of those to use, in any order; all six of `AFFINE_2D` by default.
        padding: what lies outside the image: "zeros", "border" or "reflection".
        init: the range from which each generator starts; 0, as in the paper, if None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
    """

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        padding: str | Padding = "zeros",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        known = {generator.name: generator for generator in AFFINE_2D}
        names = list(known) if generators is None else list(generators)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ArgumentError(f"Affine2d has no generator {unknown[0]!r}; choose from {', '.join(known)}.")
        super().__init__([known[name] for name in names], padding, init, parameterisation)

    def arguments(self) -> dict[str, Any] | None:
        """The arguments that make it again, None if the parameterisation is the user's own."""
        name = self.parameterisation_name()
        if name is None:
            return None
        return {"generators": list(self.names), "padding": self.padding.value, "parameterisation": name}


class Rotation2d(LiePoints):
    """Rotations of points in the plane about the origin, by a uniform angle up to a learned range.

    Args:
        init: the range, in radians, from which learning starts; 0 if None.
        parameterisation: how the range is written as eta.
    """

    def __init__(self, init: float | None = None, parameterisation: str | Parameterisation = "identity") -> None:
        rotation = Generator("rotation", [[0, -1], [1, 0]], limit=pi, unit=degrees)
        super().__init__([rotation], init, parameterisation)

    def elements(self, noise: Tensor) -> Tensor:
        """The matrix exponential in closed form, which is several times faster."""
        angle = (noise * self.limited_ranges())[..., 0]
        c, s = angle.cos(), angle.sin()
        return torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2))

    def arguments(self) -> dict[str, Any] | None:
        """The arguments that make it again, None if the parameterisation is the user's own."""
        name = self.parameterisation_name()
        return None if name is None else {"parameterisation": name}
