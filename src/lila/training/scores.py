"""How good predictions are: accuracy, log-likelihood and calibration."""

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.data.examples import Data, Examples
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical, Likelihood

_BINS = 15


@torch.no_grad()
def evaluate(
    model: InvariantModel, likelihood: Likelihood, data: Data, batch: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Score the invariant network's predictions on a data set, per example.

    Returns:
        "log_likelihood", and for classes "accuracy", "calibration_error" (expected, 15 bins) and "brier".
    """
    was_training = model.training
    model.eval()
    examples = Examples(data, next(model.parameters()).device)
    first = next(examples.batches(1))
    f = model(first.x).new_zeros(len(examples), model(first.x).shape[1])
    y = first.y.new_zeros(len(examples), *first.y.shape[1:])
    y = y if y.is_floating_point() else y.long()  # small integers cannot be summed over processes
    with ranks.together(f.device):
        for part in examples.batches(batch, ranks.share(torch.arange(len(examples)))):
            f[part.index], y[part.index] = model(part.x), part.y
    ranks.sum_([f, y])  # each process has filled its rows and left zeros elsewhere
    model.train(was_training)
    likelihood.check_targets(f.shape[1], y)
    scores = class_scores(f.softmax(1), y) if isinstance(likelihood, Categorical) else {}
    return scores | {"log_likelihood": float(likelihood.log_prob(f, y).mean())}  # from logits, which cannot underflow


def class_scores(probabilities: Tensor, y: Tensor) -> dict[str, float]:
    """Score class probabilities (n, c), such as those of `Posterior.predict`, against the true classes y.

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
