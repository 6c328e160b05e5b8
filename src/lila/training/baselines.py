"""What a run is compared with: the constant answer, and the same network without invariance."""

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from lila.errors import NumericalError
from lila.model.likelihood import Likelihood

_TRAIN_SCORES = ("accuracy", "log_likelihood")


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a simpler model of the same data is worth.

    Attributes:
        evidence: its log marginal likelihood of the training data, in nats.
        train: its scores on the training data, by name: the log-likelihood per example and, for classes, the accuracy.
        test: its scores on the test data, by name; None if there was none.
    """

    evidence: float
    train: dict[str, float]
    test: dict[str, float] | None = None

    def __post_init__(self) -> None:
        for name, value in ({"evidence": self.evidence} | self.train | (self.test or {})).items():
            if not isfinite(value):
                raise NumericalError(f"The {name} of a model to compare with is not finite: {value}.")


@dataclass(frozen=True, kw_only=True)
class PlainNetworkWorth(Worth):
    """What the same network is worth without invariance.

    Attributes:
        standard_error: the standard error of its evidence.
        test_gain: by how much the log-likelihood of a test example is larger in the run than without invariance, on
            average; None if there is no test data.
        test_gain_error: the standard error of that average over the test examples.
    """

    standard_error: float
    test_gain: float | None = None
    test_gain_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """What a run is compared with.

    Attributes:
        constant: what it is worth to answer without looking at the input: with the class frequencies of the training
            data, or with the mean and variance of real targets. None if the likelihood does not define it.
        non_invariant: what the same network is worth without invariance, trained from the same first weights with the
            same settings. None if it was not trained.
    """

    constant: Worth | None = None
    non_invariant: PlainNetworkWorth | None = None

    def by_name(self) -> dict[str, Worth]:
        """Return what is known, under names for people to read."""
        named = {"the same answer to every input": self.constant, "without invariance": self.non_invariant}
        return {name: worth for name, worth in named.items() if worth is not None}


NO_BASELINES = Baselines()


def constant_worth(likelihood: Likelihood, outputs: int, y: Tensor, test: Tensor | None) -> Worth | None:
    """Return what the constant answer is worth; None if the likelihood does not define it.

    Args:
        likelihood: of the targets.
        outputs: the number of the network's outputs.
        y: the targets of the training data, from which the answer is made.
        test: the targets of the test data, for which the same answer is given; None if there are none.
    """
    f = torch.zeros(len(y), outputs, dtype=torch.float64, device=y.device)
    answer = likelihood.constant_answer(likelihood.target_sums(f, y), len(y))
    if answer is None:
        return None
    train = {name: value for name, value in answer.scores(y).items() if name in _TRAIN_SCORES}
    return Worth(evidence=answer.evidence, train=train, test=None if test is None else answer.scores(test))
