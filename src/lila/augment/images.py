"""Lie groups of the plane that warp images."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.choices import choose
from lila.augment.base import Exporter, InputFormat, Shape
from lila.augment.exponential import affine_exp
from lila.augment.export.code import CoefficientDistribution, lie_code
from lila.augment.fixed import FixedWarps
from lila.augment.lie import Generator, LieFamily
from lila.augment.parameterisation import Parameterisation
from lila.augment.warp import Interpolation, Padding, warp
from lila.errors import ArgumentError, DataError


@suggests_arguments
class LieImages(LieFamily):
    """Images warped by a Lie group of the plane: x'(p) = x(exp(sum_i c_i G_i)^-1 p), resampled bilinearly.

    Args:
        generators: 3 x 3 matrices in homogeneous coordinates; see `lila.augment.warp` for the origin and the unit.
        padding: what lies outside the image: "zeros", "border" or "reflection".
        init: the range from which each generator starts.
        parameterisation: how a range is written as eta.
        correlated: whether the coefficients of the generators may move together.
        rank: the number of columns of the matrix of correlated ranges.
        offset: whether the centres of the coefficients are learned too.
    """

    def __init__(
        self,
        generators: Sequence[Generator],
        padding: str | Padding = "zeros",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        correlated: bool = False,
        rank: int | None = None,
        offset: bool = False,
    ) -> None:
        super().__init__(generators, init, parameterisation, correlated=correlated, rank=rank, offset=offset)
        if self.generators.shape[-1] != 3 or self.generators[:, 2].any():
            raise ArgumentError(
                "Generators that act on images are 3 x 3 with a last row of zeros (affine maps in homogeneous "
                f"coordinates), but these are {self.generators.tolist()}."
            )
        self.padding = choose(Padding, padding, "padding")

    def check_shape(self, shape: Shape) -> None:
        if len(shape) != 3:
            raise DataError(
                f"{type(self).__name__} transforms images of shape (channels, height, width), but its inputs have "
                f"shape {shape}. Grey images need a channel dimension: x.unsqueeze(1)."
            )

    def elements(self, noise: Tensor) -> Tensor:
        return affine_exp(self.algebra(noise))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        return warp(x, affine_exp(-self.algebra(noise)), self.padding)

    @torch.no_grad()
    def fixed(self, noise: Tensor) -> nn.Module:
        return FixedWarps(affine_exp(-self.algebra(noise[None]))[0], self.padding)

    def transform_masks(self, masks: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(masks, noise)
        return warp(masks, affine_exp(-self.algebra(noise)), self.padding, Interpolation.NEAREST)

    @torch.no_grad()
    def move_points(self, points: Tensor, noise: Tensor, shape: Shape) -> Tensor:
        """Return T p for every point p, where T = exp(sum_i c_i G_i) takes what the image shows at p."""
        T = self.elements(noise.to(self.eta)[None, None])[0, 0].to(points)
        half = max(shape[-2:]) / 2  # the unit of the generators, in pixels
        return ((points / half) @ T[:2, :2].mT + T[:2, 2]) * half

    def exporters(self) -> Mapping[str, Exporter]:
        distribution = CoefficientDistribution(
            self.mixing().tolist() if self.correlated else self.limited_ranges().tolist(),
            None if self.centre is None else self.centre.tolist(),
        )
        return {"torch": partial(lie_code, self.matrices(), distribution, self.padding)}

    def export_json(self, inputs: InputFormat) -> dict[str, Any]:
        return super().export_json(inputs) | {
            "distribution": "x'(p) = x(exp(sum_i c_i G_i)^-1 p), c = centres + mixing eps, eps_i independent and "
            "uniform on [-1, 1]",
            "mixing": self.mixing().tolist(),
            "centres": list(self.centres.values()),
            "coordinates": "origin at the image's centre, x right, y down, unit half the longer side",
            "generators": self.matrices(),
            "padding": self.padding.value,
        }

    def matrices(self) -> dict[str, list[list[float]]]:
        """Return the generators' matrices by name."""
        return dict(zip(self.names, self.generators.tolist(), strict=True))
