"""The Gaussian prior over the weights, p(theta) = N(0, diag(delta)^-1), with learned precisions delta."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import inf, log, pi

import torch
from torch import Tensor, nn

from lila.choices import choose
from lila.errors import ArgumentError, ModelError


class PriorStructure(StrEnum):
    """How many precisions there are."""

    SCALAR = "scalar"
    LAYERWISE = "layerwise"
    DIAGONAL = "diagonal"


class GaussianPrior(nn.Module):
    """An independent zero-mean Gaussian over every trainable weight of a network.

    A layer is a module that owns parameters, so the weight and the bias of a `Linear` share a precision, and each
    scalar of a Fixup network has its own. Frozen parameters are constants and have no prior.

    Args:
        net: the network.
        structure: "scalar" for one precision, "layerwise" for one per layer, "diagonal" for one per weight.
        precision: the precision from which learning starts.

    Attributes:
        log_precisions: the learned parameters: log delta, one tensor per group of weights that shares one.
    """

    def __init__(self, net: nn.Module, structure: str | PriorStructure = "layerwise", precision: float = 1.0) -> None:
        super().__init__()
        if not 0 < precision < inf:
            raise ArgumentError(
                f"A prior precision is the inverse of a variance: positive and finite, not {precision}."
            )
        self.structure = choose(PriorStructure, structure, "prior structure")
        weights = {name: p for name, p in net.named_parameters() if p.requires_grad}
        if not weights:
            raise ModelError("The network has no trainable parameters, so there is nothing to put a prior on.")
        self._group = {name: _GROUPS[self.structure](name) for name in weights}
        start = log(precision)
        self.log_precisions = nn.ParameterList()
        self._position: dict[str, int] = {}
        for name, weight in weights.items():
            group = self._group[name]
            if group not in self._position:
                self._position[group] = len(self.log_precisions)
                shape = weight.shape if self.structure is PriorStructure.DIAGONAL else ()
                self.log_precisions.append(
                    nn.Parameter(torch.full(shape, start, dtype=weight.dtype, device=weight.device))
                )

    @property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights that the prior is over."""
        return tuple(self._group)

    def precisions(self) -> dict[str, Tensor]:
        """Delta of each weight tensor by its name, of shape () or of the weight's shape."""
        return {name: self.log_precisions[self._position[group]].exp() for name, group in self._group.items()}

    def by_group(self) -> dict[str, Tensor]:
        """Delta of each group of weights that shares one: the name of a layer, of a weight, or "" for all."""
        return {group: self.log_precisions[i].exp() for group, i in self._position.items()}

    def log_prob(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The log-density log p(theta) = sum 1/2 (log delta - delta theta^2 - log 2 pi), in float64.

        Args:
            weights: the network's weights by name, or some of them; frozen ones have no prior and are left out.
        """
        total: Tensor | float = 0.0
        for name, weight in weights.items():
            if name not in self._group:
                continue
            log_delta = self.log_precisions[self._position[self._group[name]]]
            terms = log_delta - log_delta.exp() * weight**2 - log(2 * pi)
            total = total + 0.5 * terms.sum(dtype=torch.float64)
        return torch.as_tensor(total)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


_GROUPS: dict[PriorStructure, Callable[[str], str]] = {
    PriorStructure.SCALAR: lambda name: "",
    PriorStructure.LAYERWISE: _owner,
    PriorStructure.DIAGONAL: lambda name: name,
}
