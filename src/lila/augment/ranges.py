"""Families whose transformation is given by a few named coefficients, c_i = r_i eps_i with a learned range r_i.

A family says what its coefficients c do to an input. Everything that concerns the ranges themselves is here: how they
are written as eta, their limits, and how people read them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf, isfinite
from typing import Any, cast

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation, Shape
from lila.augment.lie import Unit, plain_unit
from lila.augment.parameterisation import Parameterisation, find_parameterisation, parameterisation_name
from lila.errors import ArgumentError

_LIMIT_TOLERANCE = 1e-6  # a range brought back to its limit may exceed it by rounding and must keep its gradient


@dataclass(frozen=True)
class Range:
    """A learned range.

    Attributes:
        name: the name of the transformation, as "brightness".
        limit: the largest range that makes sense: a half turn for a rotation.
        unit: writes a range for people to read.
        plausible: the largest range that an input can take and still show what it showed; a learned range beyond it is
            more likely a failure of training than an invariance.
    """

    name: str
    _: KW_ONLY
    limit: float = inf
    unit: Unit = plain_unit
    plausible: float = inf


class RangeFamily(Augmentation):
    """The base of families with a learned range per transformation: eta, limits, units and coefficients from noise.

    Args:
        ranges: the name, limit and unit of each range, in the order of their noise values.
        init: the range from which each starts: one number for all, one per range, or None for the parameterisation's
            own start, which is 0 for the identity.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", the name of a registered
            parameterisation, or an object of your own.

    Attributes:
        eta: the learned parameter, one value per range.
        names: the names of the ranges.
        parameterisation_name: the name of the parameterisation, None if it is not registered.
    """

    def __init__(
        self,
        ranges: Sequence[Range],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        super().__init__()
        self.names = tuple(range_.name for range_ in ranges)
        if len(set(self.names)) != len(self.names):
            raise ArgumentError(f"Ranges must have different names, but these were given: {list(self.names)}.")
        self.noise_dim = len(self.names)
        self._units = {range_.name: range_.unit for range_ in ranges}
        self._limits = tuple(range_.limit for range_ in ranges)
        self._plausible = {range_.name: range_.plausible for range_ in ranges}
        self.parameterisation = find_parameterisation(parameterisation)
        self.parameterisation_name = parameterisation_name(self.parameterisation)
        self.eta = nn.Parameter(torch.tensor(self._initial_eta(init)))

    def _initial_eta(self, init: float | Sequence[float] | None) -> list[float]:
        if init is None:
            init = self.parameterisation.start
        values = [float(init)] * len(self.names) if isinstance(init, (int, float)) else [float(v) for v in init]
        if len(values) != len(self.names):
            raise ArgumentError(f"init has {len(values)} values for {len(self.names)} ranges {self.names}.")
        if not all(map(isfinite, values)):
            raise ArgumentError(f"init must be finite, but is {values}.")
        return [self.parameterisation.to_eta(value) for value in values]

    @property
    def limits(self) -> Tensor:
        """The limit of each range, shape (k,)."""
        return self.eta.new_tensor(self._limits)

    def limited_ranges(self) -> Tensor:
        """Return the ranges that eta stands for, saturated at their limits: shape (k,)."""
        ranges = self.parameterisation.to_range(self.eta)
        outside = ranges.abs() > self.limits * (1 + _LIMIT_TOLERANCE)  # false for NaN, which must stay one
        return torch.where(outside, self.limits.copysign(ranges), ranges)

    def coefficients(self, noise: Tensor) -> Tensor:
        """Return c = r eps for noise (b, s, k): shape (b, s, k)."""
        return noise * self.limited_ranges()

    def distribution_arguments(self) -> dict[str, Any] | None:
        """Return the arguments that choose the distribution, for `arguments`; None if it cannot be made by name."""
        name = self.parameterisation_name
        return None if name is None else {"parameterisation": name}

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
        """Put each range that exceeds its limit back to the limit, so that its gradient is not lost."""
        ranges = self.parameterisation.to_range(self.eta)
        for i in torch.nonzero(ranges.abs() > self.limits).flatten().tolist():
            limit = self.limits[i].copysign(ranges[i]).item()
            self.eta[i] = self.parameterisation.to_eta(cast("float", limit))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:.3g}" for name, value in self.ranges.items())
