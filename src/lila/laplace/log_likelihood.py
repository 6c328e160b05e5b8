"""From views to log-likelihoods: run the network on the views, average over them, take the log-likelihood."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import torch
from torch import Tensor

from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.data.examples import Batch
from lila.errors import NumericalError
from lila.laplace.checks import check_inputs
from lila.model.invariant import InvariantModel, weighted_mean
from lila.model.likelihood import Likelihood


class Average(StrEnum):
    """What is averaged over the samples of an example."""

    FUNCTION = "function"
    """The network's output, which makes an invariant network: log p(y | 1/S sum_s f(x_s))."""
    LOG_LIKELIHOOD = "log-likelihood"
    """Standard data augmentation: 1/S sum_s log p(y | f(x_s)), the lower bound that Section 4.1 argues against. Each
    view counts as 1/S of an example."""


@dataclass(frozen=True)
class Fit:
    """How well some examples are fitted.

    Attributes:
        count: the number of examples, or the sum of their weights.
        total: the sum of their log-likelihoods.
        squares: the sum of the squares of their log-likelihoods.
    """

    count: float
    total: float
    squares: float

    @classmethod
    def summed(cls, batches: Iterable[Tensor], ranks: Ranks, device: torch.device) -> "Fit":
        """Return the fit of the examples of all processes, from the log-likelihoods (b,) of batches.

        Raises:
            NumericalError: the sum is not finite.
        """
        sums = torch.zeros(3, dtype=torch.float64, device=device)
        with ranks.together(device):
            for each in batches:
                sums += torch.stack([sums.new_tensor(len(each)), each.sum(), each.square().sum()])
        ranks.sum_([sums])
        check_finite("log-likelihood", sums)
        count, total, squares = sums.tolist()
        return cls(count, total, squares)

    def of_all(self, examples: int) -> tuple[float, float]:
        """Return the log-likelihood of a data set of which the examples are a random subset, and its standard error."""
        mean = self.total / self.count
        variance = max(self.squares / self.count - mean**2, 0.0) * self.count / max(self.count - 1, 1.0)
        left_out = max(1 - self.count / examples, 0.0)
        return mean * examples, examples * sqrt(variance / self.count * left_out)


def log_likelihoods(
    model: InvariantModel,
    likelihood: Likelihood,
    batch: Batch,
    draw: Draw,
    *,
    average: Average = Average.FUNCTION,
    unbiased: bool = False,
    differentiate_views: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the averaged outputs (b, c) and the log-likelihoods of a batch, weighted, in float64, shape (b,).

    Args:
        model: the invariant network.
        likelihood: the likelihood of the targets.
        batch: the examples.
        draw: their noise.
        average: "function" for log p(y | 1/S sum_s f(x_s)), "log-likelihood" for 1/S sum_s log p(y | f(x_s)).
        unbiased: whether to take off the bias that noise in the averaged outputs brings; for "function" only.
        differentiate_views: whether to keep a graph from the views to the parameters of the augmentation.
    """
    check_inputs(model, batch.x)
    with torch.set_grad_enabled(differentiate_views and torch.is_grad_enabled()):
        noise = model.draw(draw, batch.index, batch.x.dtype)
        views, view_weights = model.views(batch.x, noise), model.view_weights(noise)
    each = model.average(views, len(views))  # (v, c)
    f = weighted_mean(each.unflatten(0, (len(batch.index), -1)), view_weights)  # (b, c)
    if average is Average.FUNCTION:
        found = of_outputs(likelihood, f, each, batch.y, unbiased=unbiased)
    else:
        targets = batch.y.repeat_interleave(len(each) // len(f), 0)
        of_views = of_outputs(likelihood, each, each, targets, unbiased=False)  # (v,)
        found = weighted_mean(of_views.unflatten(0, (len(f), -1)), view_weights)
    weights = example_weights(likelihood, batch)
    return f, found if weights is None else weights * found


def example_weights(likelihood: Likelihood, batch: Batch) -> Tensor | None:
    """Return how much each example of a batch counts, in float64, shape (b,); None if all count alike.

    It is the weight of the example in the data, times the weight that the likelihood gives to its class.
    """
    found = [weight.double() for weight in (batch.weight, likelihood.example_weights(batch.y)) if weight is not None]
    return None if not found else found[0] if len(found) == 1 else found[0] * found[1]


def of_outputs(likelihood: Likelihood, f: Tensor, each: Tensor, y: Tensor, *, unbiased: bool) -> Tensor:
    """Return log p(y | f) of averaged outputs, in float64, shape (b,).

    Args:
        likelihood: the likelihood of the targets.
        f: averaged outputs, shape (b, c).
        each: outputs at each view, shape (b s, c).
        y: targets.
        unbiased: whether to take off the bias that noise in the averages brings.
    """
    likelihood.check_targets(f.shape[1], y)
    found = likelihood.log_prob(f, y).double()
    return found + lost_to_noise(likelihood, f, each) if unbiased else found


def lost_to_noise(likelihood: Likelihood, f: Tensor, each: Tensor) -> Tensor:
    """Return by how much the log-likelihood of averaged outputs is too low on average, to second order, shape (b,).

    For S independent views the average has the covariance V / S, where V is the covariance of a view. With the output
    Hessian Lambda = L L' the loss is

        tr(Lambda V) / 2S = sum_s |L' (f_s - f)|^2 / (2 S (S - 1)),

    exactly for a Gaussian likelihood.

    Args:
        likelihood: the likelihood of the targets.
        f: averaged outputs, shape (b, c).
        each: outputs at each view, shape (b s, c).
    """
    apart = each.unflatten(0, (len(f), -1)) - f[:, None]  # (b, s, c)
    samples = apart.shape[1]
    return (apart @ likelihood.root(f)).square().sum((1, 2)) / (2 * samples * (samples - 1))


def check_finite(what: str, value: Tensor) -> None:
    """Raise NumericalError, naming what it is, if a value is not finite."""
    if not value.isfinite().all():
        raise NumericalError(
            f"The {what} is not finite. Something has grown too large for its type: lower the learning rate that it "
            "depends on, or compute in float64."
        )
