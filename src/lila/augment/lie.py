"""Lie-group augmentations: exp(sum_i eps_i r_i G_i) with generators G_i and learned ranges r_i.

The noise enters linearly in the Lie algebra, so independent uniform noise on [-1, 1] makes r_i the largest angle, shift
or log-scale along the i-th generator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import exp, inf, isfinite, log
from typing import cast

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation, Shape
from lila.augment.parameterisation import Parameterisation, find_parameterisation, parameterisation_name
from lila.errors import ArgumentError

_RUN_AWAY = 100.0  # a scale factor beyond which only powers of ten are of interest
_LIMIT_TOLERANCE = 1e-6  # a range brought back to its limit may exceed it by rounding and must keep its gradient

Unit = Callable[[float, Shape], str]
"""Writes a range for people to read, given its value and the shape of an input."""


def plain_unit(value: float, shape: Shape) -> str:
    """Write a range that has no unit."""
    return f"±{value:.3g}"


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


@dataclass(frozen=True)
class Generator:
    """One direction of the Lie algebra.

    Attributes:
        name: the name of the transformation, as "rotation".
        matrix: the generator, a square matrix as nested sequences or a tensor.
        limit: the largest range that makes sense: a half turn for a rotation.
        unit: writes a range for people to read.
        plausible: the largest range that an input can take and still show what it showed; a learned range beyond it is
            more likely a failure of training than an invariance.
    """

    name: str
    matrix: Sequence[Sequence[float]] | Tensor
    limit: float = inf
    unit: Unit = plain_unit
    _: KW_ONLY
    plausible: float = inf


class LieFamily(Augmentation):
    """The base of all Lie-group families: generators, eta, and group elements from noise.

    Args:
        generators: the directions, all of one matrix size.
        init: the range from which each generator starts: one number for all, one per generator, or None for the
            parameterisation's own start, which is 0 for the identity, as in the paper.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", the name of a registered
            parameterisation, or an object of your own.

    Attributes:
        eta: the learned parameter, one value per generator.
        names: the names of the generators.
        parameterisation_name: the name of the parameterisation, None if it is not registered.
    """

    generators: Tensor

    def __init__(
        self,
        generators: Sequence[Generator],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        super().__init__()
        matrices = _checked_matrices(generators)
        self.names = tuple(generator.name for generator in generators)
        self.noise_dim = len(generators)
        self._units = {generator.name: generator.unit for generator in generators}
        self.parameterisation = find_parameterisation(parameterisation)
        self.parameterisation_name = parameterisation_name(self.parameterisation)
        self._limits = tuple(generator.limit for generator in generators)
        self._plausible = {generator.name: generator.plausible for generator in generators}
        self.register_buffer("generators", matrices, persistent=False)
        self.eta = nn.Parameter(torch.tensor(self._initial_eta(init)))

    def _initial_eta(self, init: float | Sequence[float] | None) -> list[float]:
        if init is None:
            init = self.parameterisation.start
        values = [float(init)] * len(self.names) if isinstance(init, (int, float)) else [float(v) for v in init]
        if len(values) != len(self.names):
            raise ArgumentError(f"init has {len(values)} values for {len(self.names)} generators {self.names}.")
        if not all(map(isfinite, values)):
            raise ArgumentError(f"init must be finite, but is {values}.")
        return [self.parameterisation.to_eta(value) for value in values]

    @property
    def limits(self) -> Tensor:
        """The limit of each range, shape (k,)."""
        return self.eta.new_tensor(self._limits)

    def limited_ranges(self) -> Tensor:
        """Return the ranges that eta stands for, saturated at the generators' limits: shape (k,)."""
        ranges = self.parameterisation.to_range(self.eta)
        outside = ranges.abs() > self.limits * (1 + _LIMIT_TOLERANCE)  # false for NaN, which must stay one
        return torch.where(outside, self.limits.copysign(ranges), ranges)

    def algebra(self, noise: Tensor) -> Tensor:
        """Return sum_i eps_i r_i G_i, shape (b, s, d, d)."""
        coefficients = noise * self.limited_ranges()
        return torch.einsum("bsk,kij->bsij", coefficients, self.generators.to(coefficients.dtype))

    def elements(self, noise: Tensor) -> Tensor:
        """Return the group elements exp(sum_i eps_i r_i G_i), shape (b, s, d, d); -noise gives their inverses."""
        algebra = self.algebra(noise)
        if algebra.shape[:2].numel() != 1:
            return torch.linalg.matrix_exp(algebra)
        # For a single matrix PyTorch uses a lower degree, with an error of 1e-4 in float32. Results must not depend on
        # the size of the batch, so a single matrix is computed twice.
        return torch.linalg.matrix_exp(algebra.expand(2, -1, -1, -1))[:1]

    @property
    def ranges(self) -> Mapping[str, float]:
        return dict(zip(self.names, self.limited_ranges().detach().abs().tolist(), strict=True))

    def readable(self, name: str, value: float, shape: Shape) -> str:
        if name not in self._units:
            raise ArgumentError(
                f"{type(self).__name__} has no range named {name!r}; its ranges are {', '.join(self.names)}."
            )
        return self._units[name](value, shape)

    @property
    def shares(self) -> Mapping[str, float]:
        large = [limit if isfinite(limit) else 1.0 for limit in self._limits]
        return {name: min(value / most, 1.0) for (name, value), most in zip(self.ranges.items(), large, strict=True)}

    def implausible_ranges(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.ranges.items() if value > self._plausible[name])

    @torch.no_grad()
    def saturate_(self) -> None:
        """Put each range that exceeds its generator's limit back to the limit, so that its gradient is not lost."""
        ranges = self.parameterisation.to_range(self.eta)
        for i in torch.nonzero(ranges.abs() > self.limits).flatten().tolist():
            limit = self.limits[i].copysign(ranges[i]).item()
            self.eta[i] = self.parameterisation.to_eta(cast("float", limit))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:.3g}" for name, value in self.ranges.items())


def _checked_matrices(generators: Sequence[Generator]) -> Tensor:
    if not generators:
        raise ArgumentError("A Lie-group augmentation needs at least one generator.")
    names = [generator.name for generator in generators]
    if len(set(names)) != len(names):
        raise ArgumentError(f"Generators must have different names, but these were given: {names}.")
    matrices = [torch.as_tensor(generator.matrix, dtype=torch.float64) for generator in generators]
    for name, matrix in zip(names, matrices, strict=True):
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != matrices[0].shape:
            raise ArgumentError(
                f"Generators must be square matrices of one size, but {name!r} has shape {tuple(matrix.shape)} and "
                f"{names[0]!r} has {tuple(matrices[0].shape)}."
            )
    return torch.stack(matrices)
