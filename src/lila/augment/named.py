"""Families whose ranges are chosen by name, and whose coefficients are found by name.

A range scales one noise value, or several: the waves of a smooth warp, the jitter of each point. The noise begins with
the first value of each range; the further values follow in the order of the ranges.

What multiplies values is a factor 1 + c, uniform on [1 - r, 1 + r], and not exp(c): its mean is 1 for every range. The
mean of exp(c), sinh(r) / r, is larger, so a wide range would pay by making the average input larger, which has the
effect of a weaker prior on the first layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.suggestions import did_you_mean
from lila.augment.base import Shape
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range, RangeFamily
from lila.errors import ArgumentError


def factor(value: float, shape: Shape) -> str:
    """Write a range c of factors 1 + c."""
    return f"×{1 - value:.2f} to ×{1 + value:.2f}"


@suggests_arguments
class NamedRanges(RangeFamily):
    """The base of families with a fixed set of ranges, some of which are used.

    Args:
        known: all ranges of the family.
        generators: the names of those to use.
        init: the range from which each starts: one number for all, one per range, or None for the parameterisation's
            own start, which is 0 for the identity.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
        noises: the number of noise values that a range scales, by its name; 1 for those that are left out.
    """

    def __init__(
        self,
        known: Sequence[Range],
        generators: Sequence[str],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        noises: Mapping[str, int] | None = None,
    ) -> None:
        by_name = {range_.name: range_ for range_ in known}
        unknown = [name for name in generators if name not in by_name]
        if unknown or not generators:
            wrong = f"has no range {unknown[0]!r}" if unknown else "needs at least one range"
            meant = did_you_mean(unknown[0], by_name) if unknown else ""
            raise ArgumentError(f"{type(self).__name__} {wrong}; choose from {', '.join(by_name)}.{meant}")
        super().__init__([by_name[name] for name in generators], init, parameterisation)
        self._further = {name: count - 1 for name, count in (noises or {}).items() if name in self.names}
        self._first_values = self.noise_dim
        self.noise_dim += sum(self._further.values())

    def changes(self, noise: Tensor, like: Tensor) -> dict[str, Tensor]:
        """Return the coefficients by name: shape (b, s), or (b, s, noises) for a range of several noise values.

        Args:
            noise: values in [-1, 1], shape (b, s, k).
            like: a tensor whose type the coefficients get.
        """
        first = self.coefficients(noise[..., : self._first_values]).to(like.dtype)
        found = dict(zip(self.names, first.unbind(-1), strict=True))
        ranges = dict(zip(self.names, self.limited_ranges().unbind(), strict=True))
        start = self._first_values
        for name in (name for name in self.names if name in self._further):
            rest = noise[..., start : start + self._further[name]] * ranges[name]
            found[name] = _join(found[name], rest.to(like.dtype))
            start += self._further[name]
        return found

    def noise_index(self, name: str) -> int | None:
        """Return the first of the noise values that a range scales."""
        return self.names.index(name) if name in self.names else None

    def named_arguments(self) -> dict[str, Any] | None:
        """Return the arguments that all these families share; None if they cannot be made again by name."""
        distribution = self.distribution_arguments()
        return None if distribution is None else {"generators": list(self.names)} | distribution


def _join(first: Tensor, rest: Tensor) -> Tensor:
    return torch.cat([first.unsqueeze(-1), rest], dim=-1)
