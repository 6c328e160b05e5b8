"""The two passes over the data: one gathers the curvature without a graph, one pulls its cotangent back.

Both see a batch through the same eyes, `Pass.recorded`; the second with a graph. The batches set the memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.augment.compose import Compose
from lila.augment.noise import Draw
from lila.curvature import Columns, Layer, Roots, Structure, Tape, record
from lila.curvature.audit import Positions, audit
from lila.data.examples import Batch, Examples
from lila.errors import DataError, ModelError, NumericalError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood

AUDIT_EXAMPLES = 8  # that a network is audited on


class Average(StrEnum):
    """What is averaged over the samples of an example."""

    FUNCTION = "function"
    """The network's output, which makes an invariant network: log p(y | 1/S sum_s f(x_s))."""
    LOG_LIKELIHOOD = "log-likelihood"
    """Standard data augmentation: 1/S sum_s log p(y | f(x_s)), the lower bound that method.tex argues against. Each
    view counts as 1/S of an example."""


@dataclass(frozen=True)
class Fit:
    """How well some examples are fitted.

    Attributes:
        count: the number of examples, or what they are worth if they have weights.
        total: the sum of their log-likelihoods.
        squares: the sum of the squares of these.
    """

    count: float
    total: float
    squares: float

    @classmethod
    def summed(cls, each: Iterable[Tensor], ranks: Ranks, device: torch.device) -> "Fit":
        """That of the examples of all processes, from log-likelihoods (b,) of batches.

        Raises:
            NumericalError: the sum is not finite.
        """
        sums = torch.zeros(3, dtype=torch.float64, device=device)
        with ranks.together(device):
            for fits in each:
                sums += torch.stack([sums.new_tensor(len(fits)), fits.sum(), fits.square().sum()])
        ranks.sum_([sums])
        check_finite("log-likelihood", sums)
        count, total, squares = sums.tolist()
        return cls(count, total, squares)

    def of_all(self, examples: int) -> tuple[float, float]:
        """The log-likelihood of a data set from which the examples are a random subset, and its standard error."""
        mean = self.total / self.count
        variance = max(self.squares / self.count - mean**2, 0.0) * self.count / max(self.count - 1, 1.0)
        left_out = max(1 - self.count / examples, 0.0)
        return mean * examples, examples * sqrt(variance / self.count * left_out)


@dataclass(frozen=True)
class Pass:
    """Everything that a pass needs to know beside the data.

    Attributes:
        model: the invariant network.
        likelihood: of the targets.
        layers: the layers of the network.
        structure: of the curvature.
        roots: which columns make up the curvature.
        draw: the noise.
        average: what is averaged over the samples of an example.
        unbiased: take off the bias that noise in the averaged outputs brings to the log-likelihood.
    """

    model: InvariantModel
    likelihood: Likelihood
    layers: tuple[Layer, ...]
    structure: type[Structure]
    roots: Roots
    draw: Draw
    average: Average = Average.FUNCTION
    unbiased: bool = False

    def batch(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Structure]:
        """Log-likelihood of a batch, a scalar, and its curvature, both with a graph to the hyperparameters or not."""
        log_likelihoods, tape, columns = self.recorded(batch, differentiable)
        with torch.set_grad_enabled(differentiable):
            return log_likelihoods.sum(), self.structure.of_batch(tape, columns)

    def recorded(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Tape, Columns]:
        """Log-likelihoods of a batch in float64, shape (b,), and the tape and columns that make up its curvature."""
        check_inputs(self.model, batch.x)
        if self.average is Average.FUNCTION:
            return self._examples(batch, differentiable, weight=1.0)
        plain = replace(self, model=InvariantModel(self.model.net, Compose(), samples=1))
        views = self._views(batch, differentiable)
        each, tape, columns = plain._examples(views, differentiable, weight=1 / self.model.samples)
        return each.unflatten(0, (len(batch.y), -1)).sum(1), tape, columns

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch], ranks: Ranks = ALONE) -> Fit:
        """The log-likelihoods of all batches of all processes, without their curvature."""
        device = next(self.model.net.parameters()).device
        how = self.average, self.unbiased
        each = (log_likelihoods(self.model, self.likelihood, batch, self.draw, *how)[1] for batch in batches)
        return Fit.summed(each, ranks, device)

    def _views(self, batch: Batch, differentiable: bool) -> Batch:
        """The views of a batch as examples of their own, with indices of their own."""
        samples = self.model.samples
        with torch.set_grad_enabled(differentiable):
            views = self.model.views(batch.x, self.model.draw(self.draw, batch.index, batch.x.dtype))
        index = batch.index[:, None] * samples + torch.arange(samples, device=batch.index.device)
        return Batch(index.flatten(), views, batch.y.repeat_interleave(samples, 0))

    def _examples(self, batch: Batch, differentiable: bool, weight: float) -> tuple[Tensor, Tape, Columns]:
        noise = self.model.draw(self.draw, batch.index, batch.x.dtype)
        tape = record(self.model, self.layers, batch.x, noise, self.structure.samples, differentiable)
        f, each = (x if differentiable else x.detach() for x in (tape.outputs, tape.each))
        self.likelihood.check_targets(f.shape[1], batch.y)
        with torch.set_grad_enabled(differentiable):
            log_likelihoods = weight * self.likelihood.log_prob(f, batch.y).double()
            if self.unbiased:
                log_likelihoods += lost_to_noise(self.likelihood, f, each)
            columns = self.roots.columns(self.likelihood, f, batch.y, self.draw, batch.index)
            return log_likelihoods, tape, columns.weighted(weight)


def log_likelihoods(
    model: InvariantModel,
    likelihood: Likelihood,
    batch: Batch,
    draw: Draw,
    average: Average,
    unbiased: bool = False,
) -> tuple[Tensor, Tensor]:
    """Outputs averaged over the views of each example, shape (b, c), and log-likelihoods in float64, shape (b,).

    The latter are log p(y | 1/S sum_s f(x_s)), without the bias that noise brings if so wanted, or
    1/S sum_s log p(y | f(x_s)).
    """
    check_inputs(model, batch.x)
    size = len(batch.index)
    views = model.views(batch.x, model.draw(draw, batch.index, batch.x.dtype))
    each = model.average(views, len(views))  # (v, c)
    f = each.unflatten(0, (size, -1)).mean(1)  # (b, c)
    outputs = f if average is Average.FUNCTION else each
    likelihood.check_targets(outputs.shape[1], batch.y)
    log_probs = likelihood.log_prob(outputs, batch.y.repeat_interleave(len(outputs) // size, 0)).double()
    per_example = log_probs.unflatten(0, (size, -1)).mean(1)
    return f, per_example + lost_to_noise(likelihood, f, each) if unbiased else per_example


def lost_to_noise(likelihood: Likelihood, f: Tensor, each: Tensor) -> Tensor:
    """How much the log-likelihood of averaged outputs is too low, on average and to second order, shape (b,).

    For S independent views the average has the covariance V / S, where V is that of a view, so that with the output
    Hessian Lambda = L L' it is

        tr(Lambda V) / 2S = sum_s |L' (f_s - f)|^2 / (2 S (S - 1)),

    exactly for a Gaussian likelihood.

    Args:
        likelihood: of the targets.
        f: averaged outputs, shape (b, c).
        each: outputs at each view, shape (b s, c).
    """
    apart = each.unflatten(0, (len(f), -1)) - f[:, None]  # (b, s, c)
    samples = apart.shape[1]
    return (apart @ likelihood.root(f)).square().sum((1, 2)) / (2 * samples * (samples - 1))


def gather(pass_: Pass, batches: Iterable[Batch], ranks: Ranks = ALONE) -> tuple[Fit, Structure]:
    """First pass: log-likelihoods and curvature, summed over all batches of all processes, without a graph.

    Raises:
        NumericalError: a sum is not finite; the message names the term or the layer.
        ModelError: a layer runs for some batches only.
    """
    weight = next(pass_.model.net.parameters()).detach()
    curvature, positions = pass_.structure.zeros(pass_.layers, weight), Positions()

    def added() -> Iterator[Tensor]:
        """Add each batch to the curvature; its log-likelihoods go on to be summed."""
        nonlocal curvature
        for batch in batches:
            each, tape, columns = pass_.recorded(batch, differentiable=False)
            positions.check(tape, batch.x)
            with torch.no_grad():
                curvature = curvature.plus_(tape, columns)
            yield each

    fit = Fit.summed(added(), ranks, weight.device)
    curvature = curvature.over_all_(ranks)
    for name, tensor in curvature.parts().items():
        check_finite(name, tensor)
    return fit, curvature


def pull_back(
    pass_: Pass, batches: Iterable[Batch], cotangent: Structure, parameters: Sequence[Tensor], ranks: Ranks = ALONE
) -> tuple[Tensor, ...]:
    """Second pass: the gradient of log-likelihood - 1/2 log|H| in the given hyperparameters (jvp.tex).

    Per batch it is that of the scalar  log-likelihood - 1/2 <cotangent, curvature of the batch>.

    Args:
        pass_: as in the first pass, though it may use other columns.
        batches: the data.
        cotangent: the gradient of log|H| by the curvature.
        parameters: those of the augmentation and of the likelihood.
        ranks: the processes over which it is summed.
    """
    gradients, positions = [torch.zeros_like(parameter) for parameter in parameters], Positions()
    with ranks.together(parameters[0].device):
        for batch in batches:
            log_likelihoods, tape, columns = pass_.recorded(batch, differentiable=True)
            positions.check(tape, batch.x)
            scalar = log_likelihoods.sum() - 0.5 * cotangent.along(tape, columns)
            for sum_, gradient in zip(gradients, gradients_of(pass_, scalar, parameters), strict=True):
                sum_ += gradient
    ranks.sum_(gradients)
    return tuple(gradients)


def gradients_of(pass_: Pass, scalar: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradient of a scalar of a recorded batch in hyperparameters.

    Raises:
        ModelError: the scalar does not depend on a parameter of the augmentation, which would never be learned.
    """
    found: Sequence[Tensor | None] = [None] * len(parameters)
    if scalar.requires_grad:
        found = torch.autograd.grad(scalar, list(parameters), allow_unused=True)
    missing = {id(parameter) for parameter, gradient in zip(parameters, found, strict=True) if gradient is None}
    cut = [name for name, parameter in pass_.model.augmentation.named_parameters() if id(parameter) in missing]
    if cut:
        raise ModelError(
            f"The views that the augmentation {type(pass_.model.augmentation).__name__} makes have no gradient in its "
            f"parameters {cut}, so these could not be learned. Let forward compute with the parameters themselves, not "
            "with .detach(), .item() or .data of them, or freeze them: requires_grad_(False)."
        )
    return tuple(torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True))


def check_finite(what: str, value: Tensor) -> None:
    """Raise NumericalError, naming what it is, if a value is not finite."""
    if not value.isfinite().all():
        raise NumericalError(
            f"The {what} is not finite. Something has grown too large for its type: lower the learning rate that it "
            "depends on, or compute in float64."
        )


def few_examples(examples: Examples) -> Batch:
    """Some examples for `check_model`, spread over the data set: it may be sorted by class."""
    count = min(len(examples), AUDIT_EXAMPLES)
    chosen = torch.arange(count) * (len(examples) - 1) // max(count - 1, 1)
    return next(examples.batches(count, chosen))


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


def check_inputs(model: InvariantModel, x: Tensor) -> None:
    """Raise DataError unless inputs have the type of the network's weights."""
    dtype = next(model.net.parameters()).dtype
    if x.dtype != dtype:
        raise DataError(
            f"The inputs have type {x.dtype} but the network's weights {dtype}. Convert the inputs: x.to({dtype})."
        )
