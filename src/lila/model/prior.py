"""The Gaussian prior over the weights, p(theta) = N(mu, diag(delta)^-1), with learned precisions delta.

The mean mu is zero, or the weights from which training starts. The latter is the prior of fine-tuning: what was learned
before is the best guess, and the data say how far from it to go.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import inf, log, pi

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.choices import choose, is_number
from lila.errors import ArgumentError, ModelError

_ITERATIONS, _RELAXATION = 3, 0.7  # leave at most 0.4^3, a 15th, of the way; see `move_to_fixed_point_`
_LEAST_DETERMINED = 1e-3  # weights: by rounding their number may come out as zero or negative
_LOG_BOUNDS = (log(1e-4), log(1e4))  # of precisions at the fixed point, which would be infinite for weights of zero


class PriorStructure(StrEnum):
    """How many precisions there are."""

    SCALAR = "scalar"
    LAYERWISE = "layerwise"
    DIAGONAL = "diagonal"


class PriorMean(StrEnum):
    """What the mean of the prior is."""

    ZERO = "zero"
    START = "start"
    """The weights that the network has when the prior is made."""


@suggests_arguments
class GaussianPrior(nn.Module):
    """An independent Gaussian over every trainable weight of a network.

    A layer is a module that owns parameters, so the weight and the bias of a `Linear` share a precision, and each
    scalar of a Fixup network has its own. Frozen parameters are constants and have no prior.

    Args:
        net: the network.
        structure: "scalar" for one precision, "layerwise" for one per layer, "diagonal" for one per weight.
        precision: the precision from which learning starts.
        mean: "zero", or "start" for the present weights of the network, which are copied.

    Attributes:
        log_precisions: the learned parameters, log delta: one tensor per group of weights that share a precision.
        mean: what the mean is.
    """

    def __init__(
        self,
        net: nn.Module,
        structure: str | PriorStructure = "layerwise",
        precision: float = 1.0,
        *,
        mean: str | PriorMean = "zero",
    ) -> None:
        super().__init__()
        if not isinstance(net, nn.Module):
            raise ArgumentError(f"A prior is over the weights of a torch.nn.Module, but this is {net!r}.")
        if not is_number(precision) or not 0 < precision < inf:
            raise ArgumentError(
                f"A prior precision is the inverse of a variance: positive and finite, not {precision!r}."
            )
        self.structure = choose(PriorStructure, structure, "prior structure")
        self.mean = choose(PriorMean, mean, "prior mean")
        weights = {name: p for name, p in net.named_parameters() if p.requires_grad}
        if not weights:
            raise ModelError("The network has no trainable parameters, so there is nothing to put a prior on.")
        self._group = {name: _GROUPS[self.structure](name) for name in weights}
        start = log(precision)
        if self.mean is PriorMean.START:
            for number, weight in enumerate(weights.values()):
                self.register_buffer(f"mean_{number}", weight.detach().clone())
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

    def deviations(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return theta - mu of each weight tensor by its name.

        Args:
            weights: the network's weights by name, or some of them; frozen ones have no prior and are left out.
        """
        if self.mean is PriorMean.ZERO:
            return {name: weight for name, weight in weights.items() if name in self._group}
        means = {name: self.get_buffer(f"mean_{number}") for number, name in enumerate(self._group)}
        return {name: weight - means[name] for name, weight in weights.items() if name in means}

    def weight_penalty(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return -1/2 sum delta (theta - mu)^2, the part of log p(theta) that depends on the weights, in float64.

        Args:
            weights: the network's weights by name, or some of them; frozen ones have no prior and are left out.
        """
        precisions = self.precisions()
        terms = [
            (precisions[name] * deviation**2).sum(dtype=torch.float64)
            for name, deviation in self.deviations(weights).items()
        ]
        return -0.5 * torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)

    def log_prob(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the log-density log p(theta) = sum 1/2 (log delta - delta (theta - mu)^2 - log 2 pi), in float64.

        Args:
            weights: the network's weights by name, or some of them; frozen ones have no prior and are left out.
        """
        total: Tensor | float = 0.0
        for name, deviation in self.deviations(weights).items():
            log_delta = self.log_precisions[self._position[self._group[name]]]
            terms = log_delta - log_delta.exp() * deviation**2 - log(2 * pi)
            total = total + 0.5 * terms.sum(dtype=torch.float64)
        return torch.as_tensor(total)

    @torch.no_grad()
    def move_to_fixed_point_(
        self, weights: Mapping[str, Tensor], log_det: Callable[[], Tensor], times: int = _ITERATIONS
    ) -> None:
        """Set each precision that is trainable to where the gradient of the evidence in it vanishes (MacKay, 1992).

        With |theta - mu|^2 the squared deviations of the weights of a group from their mean, P their number, and gamma
        the number of them that the data determine, the gradient of log p(theta) - 1/2 log|H + delta I| in log delta is

            1/2 (gamma - delta |theta - mu|^2),    gamma = P - d log|H + delta I| / d log delta,

        so that delta = gamma / |theta - mu|^2. As gamma depends on delta this is repeated. The slope of log gamma in
        log delta lies between -1 and 0, so taking 0.7 of the way in log delta leaves at most 0.4 of it, whatever the
        slope.

        Args:
            weights: the network's weights by name, or those that H is over; groups without any are left alone.
            log_det: gives log|H + delta I| at the present precisions, differentiable in them.
            times: how often to repeat it.
        """
        groups: dict[int, list[Tensor]] = {}
        for name, deviation in self.deviations(weights).items():
            position = self._position[self._group[name]]
            if self.log_precisions[position].requires_grad:
                groups.setdefault(position, []).append(deviation)
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
                    count = float(sum(deviation.numel() for deviation in of_group))
                    squares = torch.stack([deviation.square().sum() for deviation in of_group]).sum()
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
