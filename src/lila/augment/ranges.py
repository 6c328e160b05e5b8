"""Families whose transformation is given by a few named coefficients, each drawn from a learned distribution.

The coefficients c of one transformation are a linear function of its noise eps, which is uniform on [-1, 1]^m:

    c = mu + R eps.

- Independent ranges, as in the paper: R is diagonal, so c_i is uniform on [mu_i - r_i, mu_i + r_i].
- Correlated ranges: R is any matrix (k, m), so coefficients may move together: both scales of an image, for example.
- The centre mu is 0 unless the family learns it (`offset=True`).

The range of a coefficient with correlated ranges is r_i = |R_i|, the length of the i-th row. That is the standard
deviation of c_i times sqrt(3): the half-width of the uniform distribution with the same deviation. It equals the range
of the paper where a row has one entry. The largest value of |c_i - mu_i|, sum_j |R_ij|, is not used, because the
evidence hardly determines it: to second order, it depends on R by R R' alone, which leaves R free to rotate.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from math import copysign, inf, isfinite
from typing import Any, cast

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.choices import as_numbers
from lila.augment.base import Augmentation, Coupling, FullTurn, Shape
from lila.augment.parameterisation import Identity, Parameterisation, find_parameterisation, parameterisation_name
from lila.errors import ArgumentError

_LIMIT_TOLERANCE = 1e-6  # a range brought back to its limit may exceed it by rounding and must keep its gradient
_CORRELATED_START = 0.1  # the range of each coefficient; see "Start" in docs/distributions.md
_NOTICEABLE = 0.03  # the share of a very large range from which on a range may have couplings
_STRONG = 0.3  # the smallest correlation that is told
_FEW = 3  # couplings that are told

Unit = Callable[[float, Shape], str]
"""Writes a range as "±value" or "low to high", given its value and the shape of an input."""


def plain_unit(value: float, shape: Shape) -> str:
    """Write a range that has no unit."""
    return f"±{value:.3g}"


@suggests_arguments
@dataclass(frozen=True)
class Range:
    """What is known of a range before it is learned.

    Attributes:
        name: the name of the transformation, as "rotation".
        limit: the largest range that makes sense: a half turn to either side for a rotation.
        closes: whether the circle is closed at the limit, as it is for angles.
        unit: writes a range for people to read.
        plausible: the largest range that an input can take and still show what it showed; a learned range beyond it is
            more likely a failure of training than an invariance.
    """

    name: str
    _: KW_ONLY
    limit: float = inf
    closes: bool = False
    unit: Unit = plain_unit
    plausible: float = inf


@suggests_arguments
class RangeFamily(Augmentation):
    """The base of families with a learned range for each of k coefficients: c = mu + R eps.

    A family derives from it, computes its views from `coefficients(noise)`, and passes the arguments of its
    distribution on. If it takes further noise, it adds to `noise_dim`, and gives the first m values to `coefficients`.

    Args:
        ranges: the name, limit and unit of each range.
        init: the range from which each coefficient starts: one number for all, one per coefficient, or None for the
            parameterisation's own start, which is 0 for the identity, as in the paper. Correlated ranges start from
            independent ones, of 0.1 if init is None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", the name of a registered
            parameterisation, or an object of your own. Correlated ranges take the identity alone.
        correlated: whether R is a matrix rather than a diagonal.
        rank: m, the number of columns of a correlated R; None for k. With fewer columns than rows, some
            coefficients are a function of others.
        offset: whether the centres mu are learned too.

    Attributes:
        eta: the learned parameter: one value per range, shape (k,), or R itself, shape (k, m).
        centre: the learned centres mu, shape (k,); None if they are 0.
        names: the names of the ranges.
        parameterisation_name: the name of the parameterisation, None if it is not registered.
    """

    centre: nn.Parameter | None

    def __init__(
        self,
        ranges: Sequence[Range],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        correlated: bool = False,
        rank: int | None = None,
        offset: bool = False,
    ) -> None:
        super().__init__()
        self.names = tuple(range_.name for range_ in ranges)
        if len(set(self.names)) != len(self.names):
            raise ArgumentError(f"Ranges must have different names, but these were given: {list(self.names)}.")
        self.parameterisation = find_parameterisation(parameterisation)
        self.parameterisation_name = parameterisation_name(self.parameterisation)
        self.correlated, self.offset = correlated, offset
        self._columns = self._checked_columns(rank)
        self.noise_dim = self._columns
        self._units = {range_.name: range_.unit for range_ in ranges}
        self._limits = tuple(range_.limit for range_ in ranges)
        self._closing = tuple(i for i, range_ in enumerate(ranges) if range_.closes)
        self._plausible = {range_.name: range_.plausible for range_ in ranges}
        start = torch.tensor(self._initial_eta(init))
        if correlated:
            # One entry per row, so that each range is the one asked for; independent if there are as many columns.
            columns = torch.arange(len(ranges)) % self._columns
            start = start[:, None] * nn.functional.one_hot(columns, self._columns)
        self.eta = nn.Parameter(start)
        self.centre = nn.Parameter(torch.zeros(len(ranges))) if offset else None

    def _checked_columns(self, rank: int | None) -> int:
        """Return m, the number of columns of R."""
        if not self.correlated:
            if rank is not None:
                raise ArgumentError("rank is the number of columns of correlated ranges: give correlated=True with it.")
            return len(self.names)
        if not isinstance(self.parameterisation, Identity):
            raise ArgumentError(
                "Correlated ranges are a matrix whose entries may have any sign, so they take "
                "parameterisation='identity' alone."
            )
        if rank is not None and (not isinstance(rank, int) or not 1 <= rank <= len(self.names)):
            raise ArgumentError(f"rank must be a whole number from 1 to {len(self.names)}, but is {rank!r}.")
        return len(self.names) if rank is None else rank

    def _initial_eta(self, init: float | Sequence[float] | None) -> list[float]:
        if init is None:
            init = _CORRELATED_START if self.correlated else self.parameterisation.start
        values = as_numbers("init", init, len(self.names))
        if len(values) != len(self.names):
            raise ArgumentError(f"init has {len(values)} values for {len(self.names)} generators {self.names}.")
        if not all(map(isfinite, values)):
            raise ArgumentError(f"init must be finite, but is {values}.")
        return [self.parameterisation.to_eta(value) for value in values]

    def distribution_arguments(self) -> dict[str, Any] | None:
        """Return the arguments that choose the distribution, for `arguments`; None if it cannot be made by name."""
        if self.parameterisation_name is None:
            return None
        rank = self._columns if self._columns < len(self.names) else None
        chosen = {"correlated": self.correlated or None, "rank": rank, "offset": self.offset or None}
        return {"parameterisation": self.parameterisation_name} | {k: v for k, v in chosen.items() if v is not None}

    @property
    def limits(self) -> Tensor:
        """The limit of each range, shape (k,)."""
        return self.eta.new_tensor(self._limits)

    def limited_ranges(self) -> Tensor:
        """Return the ranges that eta stands for, saturated at their limits: shape (k,)."""
        if self.correlated:
            return self.mixing().norm(dim=1)
        ranges = self.parameterisation.to_range(self.eta)
        outside = ranges.abs() > self.limits * (1 + _LIMIT_TOLERANCE)  # false for NaN, which must stay one
        return torch.where(outside, torch.where(ranges > 0, self.limits, -self.limits), ranges)

    def mixing(self) -> Tensor:
        """Return R, with its rows saturated at the limits of the ranges: shape (k, m)."""
        if not self.correlated:
            return self.limited_ranges().diag()
        lengths = self.eta.norm(dim=1)
        outside = lengths > self.limits * (1 + _LIMIT_TOLERANCE)  # false for NaN, which must stay one
        limits = torch.where(outside, self.limits, 1)
        return self.eta * (limits / torch.where(outside, lengths, 1))[:, None]

    def coefficients(self, noise: Tensor) -> Tensor:
        """Return c = mu + R eps for noise (b, s, m): shape (b, s, k)."""
        moved = (noise.unsqueeze(-2) * self.mixing()).sum(-1) if self.correlated else noise * self.limited_ranges()
        return moved if self.centre is None else moved + self.centre

    @property
    def ranges(self) -> Mapping[str, float]:
        return dict(zip(self.names, self.limited_ranges().detach().abs().tolist(), strict=True))

    @property
    def centres(self) -> Mapping[str, float]:
        """The learned centre of each range by name, in the unit of its parameter; 0 if it is not learned."""
        values = [0.0] * len(self.names) if self.centre is None else self.centre.detach().tolist()
        return dict(zip(self.names, values, strict=True))

    def readable(self, name: str, value: float, shape: Shape) -> str:
        if name not in self._units:
            raise ArgumentError(
                f"{type(self).__name__} has no range named {name!r}; its ranges are {', '.join(self.names)}."
            )
        return self._units[name](value, shape)

    def readable_ranges(self, shape: Shape) -> Mapping[str, str]:
        if self.centre is None:
            return super().readable_ranges(shape)
        centres = self.centres
        return {
            name: " to ".join(_end(self._units[name], centres[name] + side, shape) for side in (-value, value))
            for name, value in self.ranges.items()
        }

    @property
    def shares(self) -> Mapping[str, float]:
        large = [limit if isfinite(limit) else 1.0 for limit in self._limits]
        return {name: min(value / most, 1.0) for (name, value), most in zip(self.ranges.items(), large, strict=True)}

    def implausible_ranges(self) -> tuple[str, ...]:
        centres = self.centres
        return tuple(name for name, value in self.ranges.items() if abs(centres[name]) + value > self._plausible[name])

    def full_turns(self) -> tuple[FullTurn, ...]:
        if self.correlated:
            return ()  # a full turn of one coefficient is no value of a single parameter
        ranges, found = self.limited_ranges().tolist(), []
        for i in self._closing:
            eta = self.parameterisation.to_eta(copysign(self._limits[i], ranges[i]))
            found.append(FullTurn(self.eta, i, eta, abs(ranges[i]) / self._limits[i]))
        return tuple(found)

    def correlations(self) -> Tensor:
        """Return the correlations of the coefficients, shape (k, k); 0 for a coefficient whose range is 0."""
        R = self.mixing().detach()
        rows = R / R.norm(dim=1, keepdim=True).clamp(min=torch.finfo(R.dtype).tiny)
        return (rows @ rows.mT).clamp(-1, 1)

    def couplings(self) -> tuple[Coupling, ...]:
        if not self.correlated:
            return ()
        correlations, shares = self.correlations().tolist(), self.shares
        noticed = [i for i, name in enumerate(self.names) if shares[name] >= _NOTICEABLE]
        pairs = [Coupling(self.names[i], self.names[j], correlations[i][j]) for i, j in combinations(noticed, 2)]
        strong = [pair for pair in pairs if abs(pair.correlation) >= _STRONG]
        return tuple(sorted(strong, key=lambda pair: -abs(pair.correlation))[:_FEW])

    def noise_index(self, name: str) -> int | None:
        return None if self.correlated else super().noise_index(name)

    def directions(self, shape: Shape) -> Mapping[str, Tensor]:
        """Return the noise along each principal direction of R R', largest first, labelled by what moves how far."""
        if not self.correlated:
            return super().directions(shape)
        # R = U diag(s) V': the noise eps = v_j moves the coefficients by s_j u_j.
        U, s, V = torch.linalg.svd(self.mixing().detach(), full_matrices=False)
        labelled = {}
        for move, noise in zip((U * s).mT, V, strict=True):
            label = self._label(move.tolist(), shape)
            if label:
                sign = move[move.abs().argmax()].sign()  # the largest coefficient becomes larger
                labelled[label] = nn.functional.pad(sign * noise, (0, self.noise_dim - len(noise)))
        return labelled

    def _label(self, move: Sequence[float], shape: Shape) -> str:
        """Return which coefficients a direction moves, how far, and which of them against the first."""
        largest = max(map(abs, move))
        told = [i for i, value in enumerate(move) if abs(value) >= max(_STRONG * largest, _NOTICEABLE)]
        parts = []
        for i in told:
            against = " reversed" if move[i] * move[told[0]] < 0 else ""
            parts.append(f"{self.names[i]} {self.readable(self.names[i], abs(move[i]), shape)}{against}")
        return ", ".join(parts)

    @torch.no_grad()
    def saturate_(self) -> None:
        """Put each range that exceeds its limit back to the limit, so that its gradient is not lost."""
        if self.centre is not None:
            self.centre.copy_(torch.minimum(self.centre.abs(), self.limits).copysign(self.centre))
        if self.correlated:
            self.eta.copy_(self.mixing())
            return
        ranges = self.parameterisation.to_range(self.eta)
        for i in torch.nonzero(ranges.abs() > self.limits).flatten().tolist():
            limit = self.limits[i].copysign(ranges[i]).item()
            self.eta[i] = self.parameterisation.to_eta(cast("float", limit))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:.3g}" for name, value in self.ranges.items())


def _end(unit: Unit, value: float, shape: Shape) -> str:
    """Return one end of an off-centre range, which is what a unit writes of a symmetric one at this end."""
    return signed_end(unit(abs(value), shape), negative=value < 0)


def signed_end(text: str, *, negative: bool) -> str:
    """Return one end of a symmetric range that is written as "±value" or "low to high"."""
    low, separator, high = text.partition(" to ")
    if separator:
        return low if negative else high
    return low.replace("±", "-" if negative else "+")
