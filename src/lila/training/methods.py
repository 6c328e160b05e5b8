"""Which quantity each method learns eta and the prior by. The loop is the same for all, so comparisons are fair."""

from dataclasses import dataclass
from enum import Enum, StrEnum

from lila.laplace.log_likelihood import Average


class By(Enum):
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
class Method:
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

    eta: By
    prior: By
    invariant: bool = True
    average: Average = Average.FUNCTION
    rewards_eta: bool = False
    layers: str = "all"
    decays_weights: bool = False


METHODS: dict[MethodName, Method] = {
    MethodName.LILA: Method(eta=By.EVIDENCE, prior=By.EVIDENCE),
    MethodName.NON_INVARIANT: Method(eta=By.NOTHING, prior=By.EVIDENCE, invariant=False),
    MethodName.AUGERINO: Method(eta=By.LOSS, prior=By.NOTHING, rewards_eta=True, decays_weights=True),
    MethodName.MAXIMUM_LIKELIHOOD: Method(eta=By.LOSS, prior=By.EVIDENCE),
    MethodName.FIXED: Method(eta=By.NOTHING, prior=By.EVIDENCE),
    MethodName.FIXED_LOSS: Method(eta=By.NOTHING, prior=By.EVIDENCE, average=Average.LOG_LIKELIHOOD),
    MethodName.LAST_LAYER: Method(eta=By.EVIDENCE, prior=By.EVIDENCE, layers="last"),
}
