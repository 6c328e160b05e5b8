"""The two steps of Algorithm 1: an epoch of the weights, and a step of the hyperparameters on the evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from time import perf_counter

import torch
from torch import Tensor

from lila._util.ranks import ALONE, Ranks
from lila.augment.noise import Draw
from lila.data.examples import Batch, Data, Examples
from lila.errors import NumericalError
from lila.laplace.evidence import Evidence
from lila.laplace.log_likelihood import log_likelihoods
from lila.laplace.terms import Estimate
from lila.training.choices import ArithmeticName, PrecisionSteps
from lila.training.methods import LearnedBy
from lila.training.optimisers import optimised
from lila.training.prior_term import add_prior_gradients
from lila.training.settings import ResolvedSettings
from lila.training.state import State

_NO_EXAMPLES = Batch(torch.zeros(0, dtype=torch.long), torch.zeros(0), torch.zeros(0))


@dataclass(frozen=True)
class TrainedEpoch:
    """What an epoch of the weights gives.

    Attributes:
        loss: the mean negative log-likelihood of the examples.
        accuracy: the share of examples that were classified correctly; None if the targets are no classes.
        hyper_seconds: the time of the hyper-steps between the steps of the weights.
    """

    loss: float
    accuracy: float | None
    hyper_seconds: float


def train_epoch(
    state: State,
    examples: Examples,
    settings: ResolvedSettings,
    draw: Draw,
    ranks: Ranks = ALONE,
    *,
    watch: Callable[[float], None] | None = None,
) -> TrainedEpoch:
    """Train the weights in one pass over the data, in a random order.

    In runs that learn by the evidence while they train, a hyper-step may precede the step of the weights on a batch.

    Args:
        state: is changed.
        examples: the training data.
        settings: how to train.
        draw: the noise and the order of the examples.
        ranks: the processes that share the batches.
        watch: is called after each batch with the share of the epoch that is done.
    """
    groups = ["weights"]
    if settings.procedure.eta is LearnedBy.LOSS and "eta" in state.optimisers:
        groups.append("eta")
    state.track(*groups)
    wholes = draw.permutation(len(examples)).split(settings.batch_size)
    shares = [ranks.share(whole) for whole in wholes]
    batches = examples.parts(shares)
    device = next(state.model.parameters()).device
    sums = torch.zeros(2, dtype=torch.float64, device=device)  # of log-likelihoods, and of correct predictions
    seconds = 0.0
    for number, (whole, share) in enumerate(zip(wholes, shares, strict=True)):
        if state.hyper is not None:
            state.set_learning_rates(settings, (state.epoch + number / len(wholes)) / settings.epochs)
        batch = next(batches) if len(share) else _NO_EXAMPLES
        if state.hyper is not None:
            started = perf_counter()
            if state.hyper.due:  # a loss that is not finite must be named before the curvature that follows from it
                so_far = sums[:1].clone()
                ranks.sum_([so_far])
                _check_loss(float(so_far))
            offset = sum(map(len, whole.tensor_split(ranks.count)[: ranks.rank]))
            state.hyper.step(batch.x, batch.y, batch.index, weight=batch.weight, whole=len(whole), offset=offset)
            seconds += perf_counter() - started
        sums += _step_weights(
            state, groups, batch, whole=len(whole), examples=len(examples), settings=settings, draw=draw, ranks=ranks
        )
        if state.schedule is not None:
            state.schedule.after_batch()
        if watch is not None:
            watch((number + 1) / len(wholes))
    ranks.sum_([sums])
    total, correct = sums.tolist()
    _check_loss(total)
    count = len(examples)
    if state.schedule is not None:
        state.schedule.after_epoch(-total / count)
    return TrainedEpoch(-total / count, correct / count if state.likelihood.classifies else None, seconds)


def _check_loss(loss: float) -> None:
    if not isfinite(loss):
        raise NumericalError("The training loss is not finite. Lower the learning rate, or compute in float64.")


def _step_weights(
    state: State,
    groups: Sequence[str],
    batch: Batch,
    *,
    whole: int,
    examples: int,
    settings: ResolvedSettings,
    draw: Draw,
    ranks: Ranks,
) -> Tensor:
    """Take one step on a batch; return the sum of its log-likelihoods, and the number of correct predictions.

    It descends  -1/B sum_b log p(y_b | f_hat(x_b)) - 1/N log p(theta),  minus Augerino's reward for eta. Each process
    has its share of the batch, which the sums are over, and the gradients are summed.
    """
    stepping = [state.optimisers[name] for name in groups]
    stepped = [p for optimiser in stepping for p in optimised(optimiser)]
    for optimiser in stepping:
        optimiser.zero_grad()
    sums = torch.zeros(2, dtype=torch.float64, device=stepped[0].device)
    with ranks.together(sums.device):
        for part in batch.split(settings.weight_microbatch):
            outputs, each = log_likelihoods_of_step(state, part, settings, draw)
            log_likelihood = each.sum()
            (-log_likelihood / whole).backward()
            sums[0] += log_likelihood.detach()
            if state.likelihood.classifies:
                sums[1] += state.likelihood.correct(outputs, part.y).sum()
    sum_gradients(stepped, ranks)
    add_prior_gradients(state.prior, state.model.net, examples)
    if settings.procedure.rewards_eta and "eta" in groups:
        named = state.model.augmentation.named_parameters()
        widths = [p.flatten() for name, p in named if name.rpartition(".")[2] != "centre"]  # where ranges lie is free
        eta = torch.cat(widths)
        (-settings.eta_reward * eta.norm()).backward()
    for optimiser in stepping:
        optimiser.step()
    state.model.augmentation.saturate_()
    return sums


def log_likelihoods_of_step(
    state: State, batch: Batch, settings: ResolvedSettings, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Return the averaged outputs (b, c) and the log-likelihoods (b,) of a batch that a step of the weights is for."""
    average, mixed = settings.procedure.average, settings.arithmetic == ArithmeticName.MIXED
    with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=mixed):
        return log_likelihoods(state.weights_model, state.likelihood, batch, draw, average=average)


def sum_gradients(parameters: Sequence[Tensor], ranks: Ranks) -> None:
    """Sum the gradients of all processes; a parameter that has a gradient in none of them gets none."""
    if ranks.count == 1:
        return
    present = parameters[0].new_tensor([p.grad is not None for p in parameters])
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    ranks.sum_([present, *gradients])
    for parameter, gradient, count in zip(parameters, gradients, present.tolist(), strict=True):
        parameter.grad = gradient if count else None


def hyper_step(state: State, evidence: Evidence, data: Data, settings: ResolvedSettings, draw: Draw) -> Estimate | None:
    """Take one gradient step on the evidence in all that the method learns by it; return None if that is nothing."""
    by = {"eta": settings.procedure.eta, "hyper": settings.procedure.prior}
    groups = [name for name in by if by[name] is LearnedBy.EVIDENCE and name in state.optimisers]
    if not groups:
        return None
    state.track(*groups)
    for name in groups:
        state.optimisers[name].zero_grad()
    subset = settings.examples_per_estimate(len(evidence.examples(data)))
    estimate = evidence.estimate(data, draw, subset, audit=False)
    if settings.precision_steps == PrecisionSteps.FIXED_POINT:
        evidence.move_prior_to_fixed_point_(estimate.curvature)
        state.prior.requires_grad_(False)  # it is at its fixed point, and takes no gradient step
    evidence.backward(
        data, estimate, min((n for n in (subset, settings.gradient_examples) if n is not None), default=None)
    )
    for name in groups:
        state.optimisers[name].step()
    state.model.augmentation.saturate_()
    return estimate
