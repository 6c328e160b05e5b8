"""The methods, and by which quantity each learns eta and the prior. All share one loop, so comparisons are fair."""

from dataclasses import KW_ONLY, dataclass
from enum import Enum, StrEnum

from lila.laplace.log_likelihood import Average


class LearnedBy(Enum):
    """The quantity by which a group of hyperparameters is learned."""

    EVIDENCE = "evidence"
    """A gradient step on the evidence after an epoch."""
    LOSS = "loss"
    """The training loss, together with the weights, batch by batch."""
    NOTHING = "nothing"
    """No quantity: the hyperparameters stay as they are."""


class MethodName(StrEnum):
    """The methods by name."""

    LILA = "lila"
    NON_INVARIANT = "non-invariant"
    AUGERINO = "augerino"
    MAXIMUM_LIKELIHOOD = "maximum-likelihood"
    FIXED = "fixed"
    FIXED_LOSS = "fixed-loss"
    LAST_LAYER = "last-layer"


@dataclass(frozen=True)
class Procedure:
    """What a method learns, and by which quantity.

    Attributes:
        eta: the quantity by which the augmentation is learned.
        prior: the quantity by which prior precisions and observation noise are learned.
        invariant: whether the network is averaged at all; if not, one untransformed view is used.
        average: what is averaged over the views: the function or the log-likelihood.
        rewards_eta: whether the loss rewards the norm of eta (Augerino).
        layers: the layers whose weights the evidence integrates over: "all" or "last".
        decays_weights: whether the prior precision is set to give the weight decay of the settings.
    """

    eta: LearnedBy
    prior: LearnedBy
    invariant: bool = True
    average: Average = Average.FUNCTION
    _: KW_ONLY
    rewards_eta: bool = False
    layers: str = "all"
    decays_weights: bool = False


PROCEDURES: dict[MethodName, Procedure] = {
    MethodName.LILA: Procedure(eta=LearnedBy.EVIDENCE, prior=LearnedBy.EVIDENCE),
    MethodName.NON_INVARIANT: Procedure(eta=LearnedBy.NOTHING, prior=LearnedBy.EVIDENCE, invariant=False),
    MethodName.AUGERINO: Procedure(eta=LearnedBy.LOSS, prior=LearnedBy.NOTHING, rewards_eta=True, decays_weights=True),
    MethodName.MAXIMUM_LIKELIHOOD: Procedure(eta=LearnedBy.LOSS, prior=LearnedBy.EVIDENCE),
    MethodName.FIXED: Procedure(eta=LearnedBy.NOTHING, prior=LearnedBy.EVIDENCE),
    MethodName.FIXED_LOSS: Procedure(eta=LearnedBy.NOTHING, prior=LearnedBy.EVIDENCE, average=Average.LOG_LIKELIHOOD),
    MethodName.LAST_LAYER: Procedure(eta=LearnedBy.EVIDENCE, prior=LearnedBy.EVIDENCE, layers="last"),
}
