"""The Gaussian prior over the weights, p(theta) = N(0, diag(delta)^-1), with learned precisions delta."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import inf, log, pi

import torch
from torch import Tensor, nn

from lila._util.choices import choose
from lila.errors import ArgumentError, ModelError

_ITERATIONS, _RELAXATION = 3, 0.7  # leave at most 0.4^3, a 15th, of the way; see `move_to_fixed_point_`
_LEAST_DETERMINED = 1e-3  # weights: by rounding their number may come out as zero or negative
_LOG_BOUNDS = (log(1e-4), log(1e4))  # of precisions at the fixed point, which would be infinite for weights of zero


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
        log_precisions: the learned parameters, log delta: one tensor per group of weights that share a precision.
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
        """The names of the weights that the prior is over."""
        return tuple(self._group)

    def precisions(self) -> dict[str, Tensor]:
        """Return delta of each weight tensor by its name, of shape () or of the weight's shape."""
        return {name: self.log_precisions[self._position[group]].exp() for name, group in self._group.items()}

    def by_group(self) -> dict[str, Tensor]:
        """Return delta of each group of weights that shares one, by the name of a layer, of a weight, or "" for all."""
        return {group: self.log_precisions[i].exp() for group, i in self._position.items()}

    def weight_penalty(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return -1/2 sum delta theta^2, the part of log p(theta) that depends on the weights, in float64.

        Args:
            weights: the network's weights by name, or some of them; frozen ones have no prior and are left out.
        """
        precisions = self.precisions()
        terms = [
            (precisions[name] * weight**2).sum(dtype=torch.float64)
            for name, weight in weights.items()
            if name in precisions
        ]
        return -0.5 * torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)

    def log_prob(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the log-density log p(theta) = sum 1/2 (log delta - delta theta^2 - log 2 pi), in float64.

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

    @torch.no_grad()
    def move_to_fixed_point_(
        self, weights: Mapping[str, Tensor], log_det: Callable[[], Tensor], times: int = _ITERATIONS
    ) -> None:
        """Set each precision that is trainable to where the gradient of the evidence in it vanishes (MacKay, 1992).

        With |theta|^2 the squared weights of a group, P their number, and gamma the number of them that the data
        determine, the gradient of log p(theta) - 1/2 log|H + delta I| in log delta is

            1/2 (gamma - delta |theta|^2),    gamma = P - d log|H + delta I| / d log delta,

        so that delta = gamma / |theta|^2. As gamma depends on delta this is repeated. The slope of log gamma in log
        delta lies between -1 and 0, so taking 0.7 of the way in log delta leaves at most 0.4 of it, whatever the slope.

        Args:
            weights: the network's weights by name, or those that H is over; groups without any are left alone.
            log_det: gives log|H + delta I| at the present precisions, differentiable in them.
            times: how often to repeat it.
        """
        groups: dict[int, list[Tensor]] = {}
        for name, weight in weights.items():
            position = self._position[self._group[name]]
            if self.log_precisions[position].requires_grad:
                groups.setdefault(position, []).append(weight)
        if not groups:
            return
        for _ in range(times):
            moved = [self.log_precisions[position] for position in groups]
            with torch.enable_grad():
                gradients = torch.autograd.grad(log_det(), moved)
            for log_delta, gradient, of_group in zip(moved, gradients, groups.values(), strict=True):
                if log_delta.dim():  # a precision per weight
                    count, squares = 1.0, of_group[0].square()
                else:
                    count = float(sum(weight.numel() for weight in of_group))
                    squares = torch.stack([weight.square().sum() for weight in of_group]).sum()
                gamma = (count - gradient).clamp(min=_LEAST_DETERMINED)
                target = (gamma / squares).log().clamp(*_LOG_BOUNDS)
                log_delta.lerp_(target.to(log_delta.dtype), _RELAXATION)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


_GROUPS: dict[PriorStructure, Callable[[str], str]] = {
    PriorStructure.SCALAR: lambda name: "",
    PriorStructure.LAYERWISE: _owner,
    PriorStructure.DIAGONAL: lambda name: name,
}
