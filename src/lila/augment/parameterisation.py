"""Parameterisations: how the range of a transformation is written as a free parameter.

The evidence depends on the range alone, whichever way it is written, which is one of its advantages over Augerino
(see the appendix of the paper that compares the two).
"""

from abc import ABC, abstractmethod
from math import expm1, log

import torch.nn.functional as F
from torch import Tensor

from lila._util.choices import check_instance, check_name
from lila._util.suggestions import did_you_mean
from lila.errors import ArgumentError

_NO_PARAMETER = (
    "The {} parameterisation has no parameter for a range of {}: start from a positive range (init=0.1, say), or use "
    "parameterisation='identity', which can start at 0."
)


class Parameterisation(ABC):
    """A differentiable map from the free parameter eta to the range of a transformation, and back.

    Attributes:
        start: the range from which learning starts if the user gives none.
    """

    start: float

    @abstractmethod
    def to_range(self, eta: Tensor) -> Tensor:
        """Return the range that a value of the free parameter stands for."""

    @abstractmethod
    def to_eta(self, range_: float) -> float:
        """Return the free parameter that stands for a range; raise ArgumentError if there is none."""


class Identity(Parameterisation):
    """range = eta, as in the paper. The sign of eta means nothing, as the noise is symmetric."""

    start = 0.0

    def to_range(self, eta: Tensor) -> Tensor:
        return eta

    def to_eta(self, range_: float) -> float:
        return range_


class Softplus(Parameterisation):
    """range = log(1 + exp(eta)), which is always positive, so it cannot start at zero."""

    start = 0.1

    def to_range(self, eta: Tensor) -> Tensor:
        return F.softplus(eta)

    def to_eta(self, range_: float) -> float:
        if range_ <= 0:
            raise ArgumentError(_NO_PARAMETER.format("softplus", range_))
        return range_ if range_ > 30 else log(expm1(range_))


class Inverse(Parameterisation):
    """range = 1 / eta, the change of variables that breaks Augerino in the paper's appendix."""

    start = 0.1

    def to_range(self, eta: Tensor) -> Tensor:
        return eta.reciprocal()

    def to_eta(self, range_: float) -> float:
        if range_ == 0:
            raise ArgumentError(_NO_PARAMETER.format("inverse", range_))
        return 1.0 / range_


PARAMETERISATIONS: dict[str, Parameterisation] = {
    "identity": Identity(),
    "softplus": Softplus(),
    "inverse": Inverse(),
}
"""The parameterisations by name; `register_parameterisation` adds to them."""


def register_parameterisation(name: str, parameterisation: Parameterisation) -> None:
    """Make a parameterisation known by name, so that runs that use it can be saved and loaded."""
    check_name(name, "a parameterisation")
    check_instance(parameterisation, Parameterisation, f"The parameterisation {name!r}")
    if name in PARAMETERISATIONS and type(PARAMETERISATIONS[name]) is not type(parameterisation):
        raise ArgumentError(f"There is a parameterisation named {name!r} already; choose another name.")
    PARAMETERISATIONS[name] = parameterisation


def find_parameterisation(parameterisation: str | Parameterisation) -> Parameterisation:
    """Return the parameterisation of a name; one that is given as an object is returned as it is."""
    if isinstance(parameterisation, Parameterisation):
        return parameterisation
    if not isinstance(parameterisation, str) or parameterisation not in PARAMETERISATIONS:
        known = ", ".join(map(repr, PARAMETERISATIONS))
        meant = did_you_mean(parameterisation, PARAMETERISATIONS)
        raise ArgumentError(f"There is no parameterisation named {parameterisation!r}; choose one of {known}.{meant}")
    return PARAMETERISATIONS[parameterisation]


def parameterisation_name(parameterisation: Parameterisation) -> str | None:
    """Return the name of a parameterisation, or None if it is not registered."""
    return next((name for name, known in PARAMETERISATIONS.items() if known is parameterisation), None)
