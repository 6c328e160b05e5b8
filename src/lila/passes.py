"""The two passes over the data: one gathers the curvature without a graph, one pulls its cotangent back.

Both see a batch through the same eyes, `Pass.recorded`; the second with a graph. The batches set the memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from lila.augment.compose import Compose
from lila.curvature import Columns, Layer, Roots, Structure, Tape, record
from lila.curvature.audit import audit
from lila.data.examples import Batch
from lila.errors import DataError, NumericalError
from lila.invariant import InvariantModel
from lila.likelihood import Likelihood
from lila.noise import Draw
from lila.ranks import ALONE, Ranks


class Average(StrEnum):
    """What is averaged over the samples of an example."""

    FUNCTION = "function"
    """The network's output, which makes an invariant network: log p(y | 1/S sum_s f(x_s))."""
    LOG_LIKELIHOOD = "log-likelihood"
    """Standard data augmentation: 1/S sum_s log p(y | f(x_s)), the lower bound that method.tex argues against. Each
    view counts as 1/S of an example."""


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
    """

    model: InvariantModel
    likelihood: Likelihood
    layers: tuple[Layer, ...]
    structure: type[Structure]
    roots: Roots
    draw: Draw
    average: Average = Average.FUNCTION

    def batch(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Structure]:
        """Log-likelihood of a batch, a scalar, and its curvature, both with a graph to the hyperparameters or not."""
        log_likelihood, tape, columns = self.recorded(batch, differentiable)
        with torch.set_grad_enabled(differentiable):
            return log_likelihood, self.structure.of_batch(tape, columns)

    def recorded(self, batch: Batch, differentiable: bool) -> tuple[Tensor, Tape, Columns]:
        """Log-likelihood of a batch, and the tape and columns of which its curvature is made."""
        if self.average is Average.FUNCTION:
            return self._examples(batch, differentiable, weight=1.0)
        plain = replace(self, model=InvariantModel(self.model.net, Compose(), samples=1))
        return plain._examples(self._views(batch, differentiable), differentiable, weight=1 / self.model.samples)

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
        f = tape.outputs if differentiable else tape.outputs.detach()
        self.likelihood.check_targets(f.shape[1], batch.y)
        with torch.set_grad_enabled(differentiable):
            log_likelihood = weight * self.likelihood.log_prob(f, batch.y).sum(dtype=torch.float64)
            columns = self.roots.columns(self.likelihood, f, batch.y, self.draw, batch.index)
            return log_likelihood, tape, columns.weighted(weight)


def gather(pass_: Pass, batches: Iterable[Batch], ranks: Ranks = ALONE) -> tuple[Tensor, Structure]:
    """First pass: log-likelihood and curvature, summed over all batches of all processes, without a graph.

    Raises:
        NumericalError: a sum is not finite; the message names the term or the layer.
    """
    weight = next(pass_.model.net.parameters()).detach()
    log_likelihood = torch.zeros((), dtype=torch.float64, device=weight.device)
    curvature = pass_.structure.zeros(pass_.layers, weight)
    with ranks.together(weight.device):
        for batch in batches:
            fit, tape, columns = pass_.recorded(batch, differentiable=False)
            with torch.no_grad():
                log_likelihood, curvature = log_likelihood + fit, curvature.plus_(tape, columns)
    ranks.sum_([log_likelihood])
    curvature = curvature.over_all_(ranks)
    check_finite("log-likelihood", log_likelihood)
    for name, tensor in curvature.parts().items():
        check_finite(name, tensor)
    return log_likelihood, curvature


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
    gradients = [torch.zeros_like(parameter) for parameter in parameters]
    with ranks.together(parameters[0].device):
        for batch in batches:
            log_likelihood, tape, columns = pass_.recorded(batch, differentiable=True)
            scalar = log_likelihood - 0.5 * cotangent.along(tape, columns)
            for sum_, grad in zip(gradients, torch.autograd.grad(scalar, parameters, allow_unused=True), strict=True):
                if grad is not None:
                    sum_ += grad
    ranks.sum_(gradients)
    return tuple(gradients)


def check_finite(what: str, value: Tensor) -> None:
    """Raise NumericalError, naming what it is, if a value is not finite."""
    if not value.isfinite().all():
        raise NumericalError(
            f"The {what} is not finite. Something has grown too large for its type: lower the learning rate that it "
            "depends on, or compute in float64."
        )


def check_model(pass_: Pass, batch: Batch) -> None:
    """Check on a few examples that inputs fit the network and that its layers account for its gradients.

    Raises:
        DataError: the inputs' type is not that of the weights.
        ModelError: the layers' rules do not account for the network's gradients.
    """
    dtype = next(pass_.model.net.parameters()).dtype
    if batch.x.dtype != dtype:
        raise DataError(
            f"The inputs have type {batch.x.dtype} but the network's weights {dtype}. Convert the inputs: "
            f"x.to({dtype})."
        )
    audit(pass_.model, pass_.layers, batch.x, pass_.model.draw(pass_.draw, batch.index, batch.x.dtype))
