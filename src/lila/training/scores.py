"""The predictions of a network on a data set, and how good they are."""

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.metrics import CalibrationBin, calibration_bins

_MANY = 5  # examples of a class, of which a network that knows the class predicts it for one
MOST_CLASSES = 200
"""The most classes of which a table of confusions is kept."""


@torch.no_grad()
def evaluate(
    model: InvariantModel, likelihood: Likelihood, data: Data, batch: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Return the metrics of the invariant network's predictions on a data set, as its likelihood defines them."""
    return likelihood.metrics(*outputs_and_targets(model, likelihood, data, batch, ranks=ranks))


@torch.no_grad()
def outputs_and_targets(
    model: InvariantModel,
    likelihood: Likelihood,
    data: Data,
    batch: int,
    *,
    ranks: Ranks = ALONE,
    chosen: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of the invariant network for a data set, shape (n, c), and the targets.

    The outputs are those of evaluation mode, whose noise is given here: no module changes its mode.

    Args:
        model: the network.
        likelihood: checks the targets.
        data: the data set.
        batch: the number of examples in memory at a time.
        ranks: the processes, each of which takes a share of the examples.
        chosen: the indices of the examples to take; all if None.
    """
    examples = Examples(data, next(model.parameters()).device)
    chosen = torch.arange(len(examples)) if chosen is None else chosen
    first = next(examples.batches(1))
    f = torch.zeros_like(predict(model, first.x)).repeat(len(chosen), 1)
    y = _zero_targets(first.y, len(chosen))
    with ranks.together(f.device):
        for rows in ranks.share(torch.arange(len(chosen))).split(batch):
            for part in examples.batches(batch, chosen[rows]):
                f[rows], y[rows] = predict(model, part.x), part.y
    ranks.sum_([f, y])  # each process has filled its rows and left zeros elsewhere
    likelihood.check_targets(f.shape[1], y)
    return f, y


def predict(model: InvariantModel, x: Tensor) -> Tensor:
    """Return the outputs under the noise of evaluation mode, whatever mode the modules of the network are in."""
    outputs: Tensor = model(x, model.fixed_noise(x))
    return outputs


def all_targets(data: Data, batch: int, ranks: Ranks = ALONE) -> Tensor:
    """Return the targets of a data set."""
    examples = Examples(data)
    if examples.tensors is not None:
        return examples.tensors[1]
    y = _zero_targets(next(examples.batches(1)).y, len(examples))
    with ranks.together(y.device):
        for part in examples.batches(batch, ranks.share(torch.arange(len(examples)))):
            y[part.index] = part.y
    ranks.sum_([y])
    return y


def never_predicted(f: Tensor, y: Tensor) -> tuple[int, ...]:
    """Return the classes that several of the targets have and that the network predicts for no example.

    Args:
        f: logits, shape (n, c).
        y: the class of each example, shape (n,).
    """
    predicted, there = (torch.bincount(classes, minlength=f.shape[1]) for classes in (f.argmax(1), y.long()))
    return tuple(torch.nonzero((predicted == 0) & (there >= _MANY)).flatten().tolist())


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


@torch.no_grad()
def count_calibration(likelihood: Likelihood, f: Tensor, y: Tensor) -> list[CalibrationBin] | None:
    """Return how often predictions of about the same confidence are right; None if the targets are no classes."""
    if not likelihood.classifies:
        return None
    return calibration_bins(likelihood.predict(f).max(1).values, likelihood.correct(f, y))


def check_confusion(counts: list[list[int]]) -> None:
    """Raise ArgumentError unless counts are a table of confusions: square, not too large, nowhere negative."""
    classes = len(counts)
    if not 1 < classes <= MOST_CLASSES or any(len(row) != classes or min(row) < 0 for row in counts):
        raise ArgumentError(
            f"A table of confusions has as many columns as rows, between 2 and {MOST_CLASSES}, and no negative numbers."
        )


def _zero_targets(like: Tensor, count: int) -> Tensor:
    """Return targets for `count` examples, all zero; small integers become int64, as sums over processes need it."""
    y = like.new_zeros(count, *like.shape[1:])
    return y if y.is_floating_point() else y.long()
