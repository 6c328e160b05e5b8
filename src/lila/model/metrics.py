"""How good class probabilities are: accuracy, log-likelihood and calibration."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lila.errors import ArgumentError

_BINS = 15


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """Predictions of about the same confidence, which is the probability of the predicted class.

    Attributes:
        count: how many predictions there are.
        confidence: their mean confidence.
        accuracy: the share of them that is right.
    """

    count: int
    confidence: float
    accuracy: float

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.confidence <= 1 or not 0 <= self.accuracy <= 1:
            raise ArgumentError(
                "A bin of predictions holds at least one, and their mean confidence and accuracy lie between 0 and 1, "
                f"unlike {self.count} with {self.confidence} and {self.accuracy}."
            )


def class_scores(probabilities: Tensor, y: Tensor) -> dict[str, float]:
    """Return how good class probabilities (n, c), for example from `Posterior.predict`, are for the true classes y.

    Returns:
        Per example: "accuracy", "log_likelihood", "calibration_error" (expected, 15 bins) and "brier".
    """
    confidence, predicted = probabilities.max(1)
    correct = (predicted == y).to(probabilities.dtype)
    one_hot = torch.nn.functional.one_hot(y, probabilities.shape[1])
    return {
        "accuracy": float(correct.mean()),
        "log_likelihood": float(probabilities.gather(1, y[:, None]).log().mean()),
        "calibration_error": calibration_error(confidence, correct),
        "brier": float((probabilities - one_hot).square().sum(1).mean()),
    }


def calibration_error(confidence: Tensor, correct: Tensor) -> float:
    """Return the expected calibration error: |accuracy - confidence| per bin of confidence, weighted by its share."""
    return float(_sums(confidence, correct - confidence).abs().sum() / len(confidence))


def calibration_bins(confidence: Tensor, correct: Tensor) -> list[CalibrationBin]:
    """Return the bins of confidence, 15 of equal width, that hold predictions; see `calibration_error`.

    Args:
        confidence: the probability of each predicted class, shape (n,).
        correct: 1 where it is the true class and 0 elsewhere, shape (n,).
    """
    confidence, correct = confidence.double(), correct.double()
    counts, sure, right = (_sums(confidence, of) for of in (torch.ones_like(correct), confidence, correct))
    return [
        CalibrationBin(count=int(n), confidence=min(float(c / n), 1.0), accuracy=float(r / n))
        for n, c, r in zip(counts, sure, right, strict=True)
        if n > 0
    ]


def _sums(confidence: Tensor, values: Tensor) -> Tensor:
    """Return the sum of values (n,) over each bin of confidence."""
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    return torch.zeros(_BINS, dtype=values.dtype, device=values.device).index_add_(0, bins, values)
