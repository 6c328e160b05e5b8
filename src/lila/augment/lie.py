"""Lie-group augmentations: exp(sum_i c_i G_i) with generators G_i and random coefficients c_i.

The noise enters linearly in the Lie algebra, c = mu + R eps (see `lila.augment.ranges`). With independent ranges, R is
diagonal, and r_i is the largest angle, shift or log-scale along the i-th generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila.augment.base import Shape
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range, RangeFamily
from lila.errors import ArgumentError

_RUN_AWAY = 100.0  # a scale factor beyond which only powers of ten are of interest


def degrees(value: float, shape: Shape) -> str:
    """Write an angle in radians as degrees."""
    return f"±{value * 180 / torch.pi:.1f}°"


def pixels(value: float, shape: Shape) -> str:
    """Write a shift in half sides of the image as pixels."""
    return f"±{value * max(shape[-2:]) / 2:.2f} px"


def scale_factor(value: float, shape: Shape) -> str:
    """Write a log-scale as the interval of scale factors, or of their powers of ten if they are very large."""
    if value > log(_RUN_AWAY):
        power = value / log(10)
        return f"×10^-{power:.0f} to ×10^{power:.0f}"
    return f"×{exp(-value):.2f} to ×{exp(value):.2f}"


@suggests_arguments
@dataclass(frozen=True)
class Generator(Range):
    """One direction of the Lie algebra, with the name, limit and unit of its range.

    Attributes:
        matrix: the generator, a square matrix as nested sequences or a tensor.
    """

    matrix: Sequence[Sequence[float]] | Tensor


@suggests_arguments
class LieFamily(RangeFamily):
    """The base of all Lie-group families: generators, and group elements from noise.

    Args:
        generators: the directions, all of one matrix size.
        init: the range from which each generator starts; see `RangeFamily`.
        parameterisation: how a range is written as eta.
        correlated: whether the coefficients of the generators may move together.
        rank: the number of columns of the matrix of correlated ranges.
        offset: whether the centres of the coefficients are learned too.
    """

    generators: Tensor

    def __init__(
        self,
        generators: Sequence[Generator],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        correlated: bool = False,
        rank: int | None = None,
        offset: bool = False,
    ) -> None:
        matrices = _checked_matrices(generators)
        super().__init__(generators, init, parameterisation, correlated=correlated, rank=rank, offset=offset)
        self.register_buffer("generators", matrices, persistent=False)

    def algebra(self, noise: Tensor) -> Tensor:
        """Return sum_i c_i G_i, shape (b, s, d, d)."""
        coefficients = self.coefficients(noise)
        return torch.einsum("bsk,kij->bsij", coefficients, self.generators.to(coefficients.dtype))

    def elements(self, noise: Tensor) -> Tensor:
        """Return the group elements exp(sum_i c_i G_i), shape (b, s, d, d)."""
        algebra = self.algebra(noise)
        if algebra.shape[:2].numel() != 1:
            return torch.linalg.matrix_exp(algebra)
        # For a single matrix PyTorch uses a lower degree, with an error of 1e-4 in float32. Results must not depend on
        # the size of the batch, so a single matrix is computed twice.
        return torch.linalg.matrix_exp(algebra.expand(2, -1, -1, -1))[:1]


def _checked_matrices(generators: Sequence[Generator]) -> Tensor:
    if not isinstance(generators, list | tuple) or not all(isinstance(one, Generator) for one in generators):
        raise ArgumentError(
            "The generators of a Lie-group augmentation are a list of lila.Generator(name, matrix), but these were "
            f"given: {generators!r}."
        )
    if not generators:
        raise ArgumentError("A Lie-group augmentation needs at least one generator.")
    names = [generator.name for generator in generators]
    matrices = [torch.as_tensor(generator.matrix, dtype=torch.float64) for generator in generators]
    for name, matrix in zip(names, matrices, strict=True):
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != matrices[0].shape:
            raise ArgumentError(
                f"Generators must be square matrices of one size, but {name!r} has shape {tuple(matrix.shape)} and "
                f"{names[0]!r} has {tuple(matrices[0].shape)}."
            )
    return torch.stack(matrices)
