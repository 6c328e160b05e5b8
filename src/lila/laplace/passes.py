"""The two passes over the data: one gathers the curvature without a graph, one pulls its cotangent back.

Both record a batch in the same way, by `Pass.recorded`, the second one with a graph. The size of the batches determines
the memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila._util.spread import spread_indices
from lila.augment.compose import Compose
from lila.augment.noise import Draw
from lila.curvature import Columns, CurvatureSum, Layer, Roots, Speedups, Structure, Tape, record
from lila.curvature.audit import Positions, audit
from lila.curvature.autograd.speedups import ALL_SPEEDUPS
from lila.data.examples import Batch, Examples
from lila.laplace.checks import check_inputs
from lila.laplace.log_likelihood import Average, Fit, check_finite, example_weights, log_likelihoods, of_outputs
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood

AUDIT_EXAMPLES = 64  # that a network is audited on: all for mixing, eight for everything else


@dataclass(frozen=True)
class Pass:
    """Everything that a pass needs to know beside the data.

    Attributes:
        model: the invariant network.
        likelihood: the likelihood of the targets.
        layers: the layers of the network that the curvature is over.
        structure: the structure of the curvature.
        roots: which columns make up the curvature.
        draw: the noise.
        average: what is averaged over the samples of an example.
        unbiased: whether to take off the bias that noise in the averaged outputs brings to the log-likelihood.
        speedups: the shortcuts to take.
    """

    model: InvariantModel
    likelihood: Likelihood
    layers: tuple[Layer, ...]
    structure: type[Structure]
    _: KW_ONLY
    roots: Roots
    draw: Draw
    average: Average = Average.FUNCTION
    unbiased: bool = False
    speedups: Speedups = ALL_SPEEDUPS

    def in_fast_layout(self, x: Tensor) -> "Pass":
        """Return the same pass with images laid out as the network computes fastest, found out by inputs x."""
        return replace(self, model=self.model.in_fast_layout(x)) if self.speedups.channels_last else self

    def batch(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Structure]:
        """Return the log-likelihood of a batch, a scalar, and its curvature; both with a graph or without."""
        log_likelihoods, tape, columns = self.recorded(batch, differentiable)
        with torch.set_grad_enabled(differentiable):
            return log_likelihoods.sum(), self.structure.of_batch(tape, columns)

    def recorded(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Tape, Columns]:
        """Return the log-likelihoods of a batch, shape (b,), and the tape and columns that make up its curvature."""
        check_inputs(self.model, batch.x)
        if self.average is Average.FUNCTION:
            return self._examples(batch, differentiable, weight=1.0)
        plain = replace(self, model=InvariantModel(self.model.net, Compose(), samples=1))
        views = self._views(batch, differentiable)
        each, tape, columns = plain._examples(views, differentiable, weight=1 / self.model.samples)
        return each.unflatten(0, (len(batch.y), -1)).sum(1), tape, columns

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch], ranks: Ranks = ALONE) -> Fit:
        """Return the log-likelihoods of all batches of all processes, without their curvature."""
        each = (
            log_likelihoods(
                self.model, self.likelihood, batch, self.draw, average=self.average, unbiased=self.unbiased
            )[1]
            for batch in batches
        )
        return Fit.summed(each, ranks, next(self.model.net.parameters()).device)

    def _views(self, batch: Batch, differentiable: bool) -> Batch:
        """Return the views of a batch as examples of their own, with indices of their own."""
        samples = self.model.samples
        with torch.set_grad_enabled(differentiable):
            views = self.model.views(batch.x, self.model.draw(self.draw, batch.index, batch.x.dtype))
        index = batch.index[:, None] * samples + torch.arange(samples, device=batch.index.device)
        weight = None if batch.weight is None else batch.weight.repeat_interleave(samples)
        return Batch(index.flatten(), views, batch.y.repeat_interleave(samples, 0), weight)

    def _examples(self, batch: Batch, differentiable: bool, weight: float) -> tuple[Tensor, Tape, Columns]:
        """Record examples that have a weight each in the log-likelihood and in the curvature."""
        tape = record(
            self.model,
            self.layers,
            batch.x,
            self.model.draw(self.draw, batch.index, batch.x.dtype),
            self.structure.samples,
            differentiable=differentiable,
            speedups=self.speedups,
        )
        f, each = (x if differentiable else x.detach() for x in (tape.outputs, tape.each))
        with torch.set_grad_enabled(differentiable):
            found = of_outputs(self.likelihood, f, each, batch.y, unbiased=self.unbiased)
            columns = self.roots.columns(self.likelihood, f, batch.y, self.draw, batch.index)
            weights = example_weights(self.likelihood, batch)
            of_each = weight if weights is None else weight * weights
            return of_each * found, tape, columns.weighted(of_each)


def gather(pass_: Pass, batches: Iterable[Batch], ranks: Ranks = ALONE) -> tuple[Fit, Structure]:
    """First pass: sum log-likelihoods and curvature over all batches of all processes, without a graph.

    Raises:
        NumericalError: a sum is not finite; the message names the term or the layer.
        ModelError: a layer runs for some batches only.
    """
    weight = next(pass_.model.net.parameters()).detach()
    total, positions = CurvatureSum(pass_.structure.zeros(pass_.layers, weight)), Positions()

    def added() -> Iterator[Tensor]:
        """Add each batch to the curvature, and yield its log-likelihoods."""
        for batch in batches:
            each, tape, columns = pass_.recorded(batch, differentiable=False)
            positions.check(tape, batch.x)
            total.add(tape, columns)
            yield each

    fit = Fit.summed(added(), ranks, weight.device)
    total.sum_over(ranks)
    curvature = total.structure()
    for name, tensor in curvature.factors().items():
        check_finite(name, tensor)
    return fit, curvature


def pull_back(
    pass_: Pass,
    batches: Iterable[Batch],
    cotangent: Structure,
    parameters: Sequence[Tensor],
    *,
    ranks: Ranks = ALONE,
) -> tuple[Tensor, ...]:
    """Second pass: return the gradient of log-likelihood - 1/2 log|H| in hyperparameters (Section 4.3, eq. 16).

    For each batch it is the gradient of  log-likelihood - 1/2 <cotangent, curvature of the batch>.

    Args:
        pass_: the same as in the first pass, but it may use other columns.
        batches: the data.
        cotangent: the gradient of log|H| by the curvature.
        parameters: the parameters of the augmentation and of the likelihood.
        ranks: the processes over which it is summed.
    """
    gradients, positions = [torch.zeros_like(parameter) for parameter in parameters], Positions()
    with ranks.together(parameters[0].device):
        for batch in batches:
            log_likelihoods, tape, columns = pass_.recorded(batch, differentiable=True)
            positions.check(tape, batch.x)
            scalar = log_likelihoods.sum() - 0.5 * cotangent.inner_with_batch(tape, columns)
            for sum_, grad in zip(gradients, torch.autograd.grad(scalar, parameters, allow_unused=True), strict=True):
                if grad is not None:
                    sum_ += grad
    ranks.sum_(gradients)
    return tuple(gradients)


def few_examples(examples: Examples) -> Batch:
    """Return some examples for `check_model`, spread over the data set, which may be sorted by class."""
    chosen = spread_indices(len(examples), AUDIT_EXAMPLES)
    return next(examples.batches(len(chosen), chosen))


def check_model(pass_: Pass, batch: Batch, microbatch: int) -> None:
    """Check on a few examples that inputs fit the network and that its layers account for its gradients.

    Args:
        pass_: with the network.
        batch: the examples; as many as `AUDIT_EXAMPLES`, and not all alike, make a good audit.
        microbatch: the number of examples that a pass gives to the network at a time.

    Raises:
        DataError: the inputs' type is not that of the weights.
        ModelError: the layers' rules do not account for the network's gradients.
    """
    check_inputs(pass_.model, batch.x)
    noise = pass_.model.draw(pass_.draw, batch.index, batch.x.dtype)
    audit(pass_.model, pass_.layers, batch.x, noise, microbatch * pass_.model.samples)
