"""How good the predictions of a network on a data set are."""

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.data.examples import Data, Examples
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood


@torch.no_grad()
def evaluate(
    model: InvariantModel, likelihood: Likelihood, data: Data, batch: int, ranks: Ranks = ALONE
) -> dict[str, float]:
    """Return the metrics of the invariant network's predictions on a data set, as its likelihood defines them.

    The predictions are those of evaluation mode, whose noise is given here: no module changes its mode.
    """
    examples = Examples(data, next(model.parameters()).device)
    first = next(examples.batches(1))
    f = torch.zeros_like(predict(model, first.x)).repeat(len(examples), 1)
    y = first.y.new_zeros(len(examples), *first.y.shape[1:])
    y = y if y.is_floating_point() else y.long()  # small integers cannot be summed over processes
    with ranks.together(f.device):
        for part in examples.batches(batch, ranks.share(torch.arange(len(examples)))):
            f[part.index], y[part.index] = predict(model, part.x), part.y
    ranks.sum_([f, y])  # each process has filled its rows and left zeros elsewhere
    likelihood.check_targets(f.shape[1], y)
    return likelihood.metrics(f, y)


def predict(model: InvariantModel, x: Tensor) -> Tensor:
    """Return the outputs under the noise of evaluation mode, whatever mode the modules of the network are in."""
    outputs: Tensor = model(x, model.fixed_noise(x))
    return outputs
