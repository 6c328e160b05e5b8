"""How good the predictions of a network on a data set are."""

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood

MOST_CLASSES = 200
"""The most classes of which a table of confusions is kept."""


@torch.no_grad()
def evaluate(
    model: InvariantModel, likelihood: Likelihood, data: Data, batch: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Return the metrics of the invariant network's predictions on a data set, as its likelihood defines them."""
    return likelihood.metrics(*outputs_and_targets(model, likelihood, data, batch, ranks))


@torch.no_grad()
def outputs_and_targets(
    model: InvariantModel, likelihood: Likelihood, data: Data, batch: int, ranks: Ranks = ALONE
) -> tuple[Tensor, Tensor]:
    """Return the outputs (n, c) of the invariant network on a data set, and its targets, in all processes."""
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
    return f, y


@torch.no_grad()
def count_confusions(likelihood: Likelihood, f: Tensor, y: Tensor) -> list[list[int]] | None:
    """Return how many examples of each class (rows) were predicted to be of each class (columns).

    Returns:
        None if the targets are no classes, or if there are more than 200 of them, whose table nobody would read.
    """
    classes = f.shape[1]
    if not likelihood.classifies or y.dim() != 1 or not 1 < classes <= MOST_CLASSES:
        return None
    pairs = y.long() * classes + likelihood.predict(f).argmax(1)
    counts: list[list[int]] = torch.bincount(pairs, minlength=classes**2).view(classes, classes).tolist()
    return counts


def check_confusion(counts: list[list[int]]) -> None:
    """Raise ArgumentError unless counts are a table of confusions: square, not too large, nowhere negative."""
    classes = len(counts)
    if not 1 < classes <= MOST_CLASSES or any(len(row) != classes or min(row) < 0 for row in counts):
        raise ArgumentError(
            f"A table of confusions has as many columns as rows, between 2 and {MOST_CLASSES}, and no negative numbers."
        )
