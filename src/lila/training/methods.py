"""Which quantity each method learns eta and the prior by. The loop is the same for all, so comparisons are fair."""

from dataclasses import dataclass
from enum import Enum, StrEnum

from lila.laplace.passes import Average


class LearnedBy(Enum):
    """What a group of hyperparameters is learned by."""

    EVIDENCE = "evidence"
    """A gradient step on the evidence after an epoch."""
    LOSS = "loss"
    """The training loss, together with the weights, batch by batch."""
    NOTHING = "nothing"
    """It stays as it is."""


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
    """How a method differs from the others.

    Attributes:
        eta: what the augmentation is learned by.
        prior: what prior precisions and observation noise are learned by.
        invariant: whether the network is averaged at all; if not, one untransformed view is used.
        average: what is averaged.
        rewards_eta: whether the loss rewards the norm of eta (Augerino).
        layers: over whose weights the evidence integrates: "all" or "last".
        decays_weights: whether the prior precision is set to give the weight decay of the settings.
    """

    eta: LearnedBy
    prior: LearnedBy
    invariant: bool = True
    average: Average = Average.FUNCTION
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
