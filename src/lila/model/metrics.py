"""How good class probabilities are: accuracy, log-likelihood and calibration."""

import torch
from torch import Tensor

_BINS = 15


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
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=confidence.dtype, device=confidence.device).index_add_(
        0, bins, correct - confidence
    )
    return float(gaps.abs().sum() / len(confidence))
