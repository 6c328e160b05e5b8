"""The evidence from minibatches: running averages of the curvature, and the gradient of a few examples at a time.

Given the cotangent P of log|H| (see `lila.curvature.structure`), the gradient of the evidence is a sum over examples.
So it can be taken on a batch B of a data set of N examples,

    N / |B|  d / d eta [ log-likelihood of B - 1/2 <P, curvature of B> ],

while P comes from a running average of the curvature,

    T <- rho T + curvature of B,    W <- rho W + |B|,    H ~ N T / W,

which is decomposed every so often. The recording of a batch that gives its gradient gives its curvature too, so a
hyper-step is one pass over a few examples. Each process keeps the sum T over its own examples; the sums are added when
they are decomposed.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from math import exp, isnan, nan, sqrt

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.ranks import ALONE
from lila.augment.noise import Draw
from lila.curvature import CurvatureSum, Structure
from lila.curvature.audit import Positions
from lila.curvature.autograd.tape import Tape
from lila.curvature.roots import Columns
from lila.data.examples import Batch
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.laplace.log_likelihood import Fit, check_finite
from lila.laplace.terms import Estimate, Terms

_ENOUGH_PAIRS = 4.0  # pairs of successive batches, for a standard error
_LATELY = 1_000  # examples over which the fit is averaged, so that it follows the training

# Positions of the running numbers. W is the weight of the running average. The Occam factor is that of the last
# decomposition. The price of a batch is 1/2 <P, curvature> per example, what it adds to half the log-determinant; kept
# are the sum of squared differences between successive prices, the number of such pairs, and the last price. Over the
# examples seen lately: the sum of their weights, of log-likelihoods, of squared log-likelihoods and of misfits. After
# these come the sums over their targets.
_W, _OCCAM_FACTOR, _SQUARES, _PAIRS, _LAST, _LATE_W, _LOG_LIKELIHOOD, _ITS_SQUARE, _MISFIT, _TARGETS = range(10)


@suggests_arguments
class RunningEvidence:
    """The evidence of an invariant network while its weights are trained, from one small batch after the other.

    Args:
        evidence: how the evidence is computed. A hyper-step takes the number of samples of its model, and the probes
            of its gradient.
        examples: N, the number of training examples.
        few: some examples, on which the network is audited.

    Attributes:
        total: T, the weighted sum over the examples that this process has seen.
        curvature: the curvature of all N examples as of the last decomposition; None before the first one.
        cotangent: the gradient of log|H + diag(delta)| by the curvature, as of the last decomposition.
    """

    def __init__(self, evidence: Evidence, examples: int, few: Batch) -> None:
        self.evidence, self.examples = evidence, examples
        evidence.check_model(evidence.gradient_pass().in_fast_layout(few.x), few)
        self.total = CurvatureSum(evidence.no_curvature())
        self.curvature: Structure | None = None
        self.cotangent: Structure | None = None
        self._pass, self._positions = evidence.gradient_pass().in_fast_layout(few.x), Positions()
        with torch.no_grad():
            f = evidence.model.net(few.x)
        evidence.likelihood.check_targets(f.shape[1], few.y)
        targets = evidence.likelihood.target_sums(f, few.y)
        self._shape = targets.shape
        self._numbers = torch.zeros(_TARGETS + targets.numel(), dtype=torch.float64, device=few.x.device)
        self._numbers[[_OCCAM_FACTOR, _LAST]] = nan

    def blank(self) -> "RunningEvidence":
        """Return a running evidence of the same network in this process alone that changes without changing this one.

        It has seen no examples, and its cotangent is zero. A hyper-step on it costs what one on this costs.
        """
        made, evidence = copy(self), copy(self.evidence)
        evidence.ranks = ALONE
        made.evidence, made._numbers, made._positions = evidence, self._numbers.clone(), Positions()
        made.total, made.cotangent, made.curvature = (
            CurvatureSum(evidence.no_curvature()),
            evidence.no_curvature(),
            None,
        )
        return made

    def add(self, batch: Batch, draw: Draw, count: int, fade: float = 1.0) -> dict[str, Tensor]:
        """Add a batch to the running sums, and return the estimate of the evidence's gradient that it gives.

        Args:
            batch: examples; with several processes, this one's share of them.
            draw: their noise.
            count: the number of examples of all processes.
            fade: rho, by which everything before is weighted down.

        Returns:
            Gradients by name, for each hyperparameter of the augmentation and of the likelihood that is trainable at
            present. Before the first decomposition they are those of the log-likelihood alone.
        """
        self.total.scale(fade)
        parameters = self.evidence.data_hyperparameters()
        gradients = [torch.zeros_like(p, dtype=torch.float64) for p in parameters.values()]
        sums = torch.zeros_like(self._numbers[_LATE_W:])  # the price, and what is summed lately
        ranks = self.evidence.ranks
        with ranks.together(sums.device):
            for part in batch.split(self.evidence.microbatch):
                log_likelihood, price, fit = self._part(part, draw, differentiable=bool(parameters))
                sums += torch.cat([price.detach()[None], fit])
                if parameters:
                    found = torch.autograd.grad(log_likelihood - price, list(parameters.values()), allow_unused=True)
                    for sum_, gradient in zip(gradients, found, strict=True):
                        sum_ += 0.0 if gradient is None else gradient
        ranks.sum_([sums, *gradients])
        check_finite("log-likelihood of a batch, or its curvature,", sums)
        self._note(sums, count, fade)
        scaled = {
            name: (gradient * (self.examples / count)).to(p.dtype)
            for (name, p), gradient in zip(parameters.items(), gradients, strict=True)
        }
        for name, gradient in scaled.items():
            check_finite(f"gradient of the evidence in {name}", gradient)
        return scaled

    def recorded(self, batch: Batch, draw: Draw, *, differentiable: bool) -> tuple[Tensor, Tape, Columns]:
        """Return the log-likelihoods of some examples, the recording of their pass, and the columns to pull back.

        Args:
            batch: at most as many examples as a microbatch has.
            draw: their noise.
            differentiable: whether gradients in the hyperparameters are wanted.
        """
        return replace(self._pass, draw=draw).recorded(batch, differentiable)

    def _part(self, batch: Batch, draw: Draw, differentiable: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-likelihood of some examples, 1/2 <P, curvature>, and sums that tell how well they fit."""
        likelihood = self.evidence.likelihood
        log_likelihoods, tape, columns = self.recorded(batch, draw, differentiable=differentiable)
        self._positions.check(tape, batch.x)
        with torch.set_grad_enabled(differentiable):
            log_likelihood = log_likelihoods.sum()
            if self.cotangent is None:
                price = torch.zeros_like(log_likelihood)
                self.total.add(tape, columns)
            else:
                price = 0.5 * self.total.add_and_pair(tape, columns, self.cotangent)
        with torch.no_grad():
            f = tape.outputs.detach()
            views = len(f) // len(batch.y)  # more than one if it is the log-likelihood that is averaged
            misfit = likelihood.misfit(f, batch.y.repeat_interleave(views, 0)).sum(dtype=torch.float64) / views
            targets = likelihood.target_sums(f[: len(batch.y)], batch.y).double().flatten()
            each = log_likelihoods.detach()
            fit = torch.cat([torch.stack([each.sum(), each.square().sum(), misfit]), targets])
        return log_likelihood, price, fit

    def _note(self, sums: Tensor, count: int, fade: float) -> None:
        """Bring the running numbers up to date. They are the same in all processes."""
        numbers, price = self._numbers, sums[0] / count
        numbers[_W] = fade * numbers[_W] + count
        numbers[_LATE_W:] *= min(fade, exp(-count / min(_LATELY, self.examples)))
        numbers[_LATE_W] += count
        numbers[_LOG_LIKELIHOOD:] += sums[1:]
        if self.cotangent is not None:
            first = numbers[_LAST].isnan()
            numbers[_SQUARES] = fade * numbers[_SQUARES] + (0.0 if first else count * (price - numbers[_LAST]) ** 2)
            numbers[_PAIRS] = fade * numbers[_PAIRS] + (0.0 if first else 1.0)
            numbers[_LAST] = price

    @property
    def weight(self) -> float:
        """W, the number of examples that the running average is worth."""
        return float(self._numbers[_W])

    @property
    def unexplained(self) -> float | None:
        """The misfit of the network lately, as a share of the misfit of the best constant prediction; None if unknown.

        It is about 1 before training and 0 for perfect predictions.
        """
        weight = float(self._numbers[_LATE_W])
        if weight == 0:
            return None
        targets = self._numbers[_TARGETS:].view(self._shape)
        constant = self.evidence.likelihood.constant_misfit(targets, weight)
        return None if not constant else float(self._numbers[_MISFIT]) / weight / constant

    def decompose(self, move_prior: bool) -> None:
        """Decompose the running average of all processes, and find the cotangent.

        Args:
            move_prior: move the prior precisions to the fixed point of the evidence, which needs no data.

        Raises:
            NumericalError: a factor is not finite, or cannot be decomposed.
        """
        prior, whole = self.evidence.prior, self._of_all()
        if move_prior:
            self.evidence.move_prior_to_fixed_point_(whole)
        with torch.no_grad():
            self.cotangent = whole.cotangent(prior.precisions())
        self.curvature = whole
        self._numbers[_OCCAM_FACTOR] = self.evidence.assess(0.0, whole).occam_factor

    def _of_all(self) -> Structure:
        """Return the curvature of all N examples from the running averages, decomposed."""
        if not self.weight:
            raise ArgumentError("Nothing was added to the running averages yet, so there is no curvature.")
        return self.whole(self.total, self.weight)

    def whole(self, total: CurvatureSum, weight: float) -> Structure:
        """Return the curvature of all N examples, scaled up from the sums of all processes, decomposed.

        Args:
            total: this process's sum, which is not changed.
            weight: the number of examples that the sums of all processes are worth.
        """
        whole = CurvatureSum(total.structure().scaled(self.examples / weight))
        whole.sum_over(self.evidence.ranks)
        curvature = whole.structure()
        for name, tensor in curvature.factors().items():
            check_finite(name, tensor)
        return curvature.decomposed(self.evidence.ranks)

    def estimate(self, log_likelihood: tuple[float, float] | None = None) -> Estimate:
        """Return the evidence under the present prior from the running averages, without changing anything.

        The standard error comes from using only some of the examples. It does not cover that the averages lag behind
        the weights. It is NaN if fewer than two batches were added since the first decomposition.

        Args:
            log_likelihood: the log-likelihood of all N examples and its standard error; if None, it is estimated from
                the examples seen lately.
        """
        whole = self._of_all()
        value, of_fit = self._late_fit().of_all(self.examples) if log_likelihood is None else log_likelihood
        squares, pairs = self._numbers[_SQUARES : _PAIRS + 1].tolist()
        of_log_det = self.examples * sqrt(0.5 * squares / pairs / self.weight) if pairs else nan
        return self.evidence.assess(value, whole, sqrt(of_fit**2 + of_log_det**2))

    def terms(self) -> Terms | None:
        """Return the terms of the evidence that are known without any computation; None before the first decomposition.

        The log-likelihood is that of the examples seen lately, the Occam factor that of the last decomposition.
        """
        occam_factor = float(self._numbers[_OCCAM_FACTOR])
        if isnan(occam_factor):
            return None
        with torch.no_grad():
            weight_penalty = float(self.evidence.weight_penalty(self.total.structure()))
        return Terms(self._late_fit().of_all(self.examples)[0], weight_penalty, occam_factor)

    def _late_fit(self) -> Fit:
        return Fit(*self._numbers[_LATE_W : _ITS_SQUARE + 1].tolist())

    @property
    def knows_its_error(self) -> bool:
        """Whether enough batches were added for the standard error of an estimate to mean something."""
        return float(self._numbers[_PAIRS]) >= _ENOUGH_PAIRS

    def consolidate(self) -> None:
        """Add the sums of all processes up in the first one, so that its state is complete; the others begin anew."""
        self.total.sum_over(self.evidence.ranks)
        self.leave_to_first()

    def leave_to_first(self) -> None:
        """Clear the sum, unless this is the first process."""
        if not self.evidence.ranks.first:
            self.total.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that changes, by name, not copied."""
        named = {"numbers": self._numbers}
        owners: dict[str, CurvatureSum | Structure | None] = {"total": self.total, "cotangent": self.cotangent}
        for owner, structure in owners.items():
            if structure is not None:
                named |= {f"{owner}.{position}": tensor for position, tensor in enumerate(structure.tensors())}
        return named

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned. The curvature itself is available after the next decomposition."""
        zeros = self.evidence.no_curvature()
        self._numbers.copy_(tensors["numbers"])
        self.total = CurvatureSum(zeros.with_tensors(_owned("total", tensors, zeros)))
        self.cotangent = zeros.with_tensors(_owned("cotangent", tensors, zeros)) if "cotangent.0" in tensors else None


def _owned(owner: str, tensors: Mapping[str, Tensor], like: Structure) -> list[Tensor]:
    return [tensors[f"{owner}.{i}"].to(t.device, t.dtype, copy=True).view_as(t) for i, t in enumerate(like.tensors())]
