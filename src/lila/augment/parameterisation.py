"""How the range of a transformation is written as a free parameter.

The evidence depends on the range alone, whichever way it is written, which is one of its advantages over Augerino
(appendix `augerino_comparison.tex`).
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from math import expm1, log

import torch.nn.functional as F
from torch import Tensor

from lila.errors import ArgumentError

_NO_PARAMETER = (
    "The {} parameterisation has no parameter for a range of {}: start from a positive range (init=0.1, say), or use "
    "parameterisation='identity', which can start at 0."
)


class Parameterisation(ABC):
    """A differentiable map from the free parameter eta to the range of a transformation, and back.

    Attributes:
        start: the range from which learning starts if the user names none.
    """

    start: float

    @abstractmethod
    def to_range(self, eta: Tensor) -> Tensor:
        """The range that a value of the free parameter stands for."""

    @abstractmethod
    def to_eta(self, range_: float) -> float:
        """The free parameter that stands for a range; raises where there is none."""


class Identity(Parameterisation):
    """range = eta: the paper's choice. Its sign means nothing, as the noise is symmetric."""

    start = 0.0

    def to_range(self, eta: Tensor) -> Tensor:
        return eta

    def to_eta(self, range_: float) -> float:
        return range_


class Softplus(Parameterisation):
    """range = log(1 + exp(eta)): always positive, so it cannot start at zero."""

    start = 0.1

    def to_range(self, eta: Tensor) -> Tensor:
        return F.softplus(eta)

    def to_eta(self, range_: float) -> float:
        if range_ <= 0:
            raise ArgumentError(_NO_PARAMETER.format("softplus", range_))
        return range_ if range_ > 30 else log(expm1(range_))


class Inverse(Parameterisation):
    """range = 1 / eta: the change of variables that breaks Augerino in the paper's appendix."""

    start = 0.1

    def to_range(self, eta: Tensor) -> Tensor:
        return eta.reciprocal()

    def to_eta(self, range_: float) -> float:
        if range_ == 0:
            raise ArgumentError(_NO_PARAMETER.format("inverse", range_))
        return 1.0 / range_


class ParameterisationName(StrEnum):
    """The parameterisations by name."""

    IDENTITY = "identity"
    SOFTPLUS = "softplus"
    INVERSE = "inverse"


PARAMETERISATIONS: dict[ParameterisationName, Parameterisation] = {
    ParameterisationName.IDENTITY: Identity(),
    ParameterisationName.SOFTPLUS: Softplus(),
    ParameterisationName.INVERSE: Inverse(),
}
