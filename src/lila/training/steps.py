"""The two steps of Algorithm 1: an epoch of the weights, and a step of the hyperparameters on the evidence."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from lila.data.examples import Batch, Data, Examples
from lila.errors import NumericalError
from lila.evidence import Estimate, Evidence
from lila.likelihood import Categorical
from lila.noise import Draw
from lila.passes import Average
from lila.ranks import ALONE, Ranks
from lila.training.methods import By
from lila.training.settings import Settings
from lila.training.state import State


def train_epoch(
    state: State, examples: Examples, settings: Settings, draw: Draw, ranks: Ranks = ALONE
) -> dict[str, float]:
    """One pass of the weights over the data in a random order; returns the mean loss, and for classes the accuracy.

    A batch's step descends  -1/B sum_b log p(y_b | f_hat(x_b)) - 1/N log p(theta),  minus Augerino's reward for eta.
    Each process takes its share of every batch, and the gradients are summed.
    """
    state.model.train()
    groups = ["weights"]
    if settings.how.eta is By.LOSS and "eta" in state.optimisers:
        groups.append("eta")
    state.track(*groups)
    stepping = [state.optimisers[name] for name in groups]
    stepped = [p for optimiser in stepping for group in optimiser.param_groups for p in group["params"]]
    wholes = draw.permutation(len(examples)).split(settings.batch_size)
    shares = [ranks.share(whole) for whole in wholes]
    batches = examples.parts(shares)
    sums = torch.zeros(2, dtype=torch.float64, device=stepped[0].device)  # of log-likelihoods, and of what was right
    for whole, share in zip(wholes, shares, strict=True):
        for optimiser in stepping:
            optimiser.zero_grad()
        with ranks.together(sums.device):
            for part in _parts(next(batches), settings.part) if len(share) else ():
                outputs, log_likelihood = _outputs(state, part, settings.how.average, draw)
                (-log_likelihood / len(whole)).backward()
                sums[0] += log_likelihood.detach()
                if isinstance(state.likelihood, Categorical):
                    sums[1] += (outputs.argmax(1) == part.y).sum()
        sum_gradients(stepped, ranks)
        _add_prior_gradient(state, len(examples))
        if settings.how.rewards_eta and "eta" in groups:
            eta = torch.cat([p.flatten() for p in state.model.augmentation.parameters()])
            (-settings.eta_reward * eta.norm()).backward()
        for optimiser in stepping:
            optimiser.step()
        state.model.augmentation.saturate_()
    ranks.sum_([sums])
    total, correct = sums.tolist()
    if not isfinite(total):
        raise NumericalError("The training loss is not finite. Lower the learning rate, or compute in float64.")
    count = len(examples)
    return {"loss": -total / count} | (
        {"accuracy": correct / count} if isinstance(state.likelihood, Categorical) else {}
    )


def sum_gradients(parameters: Sequence[Tensor], ranks: Ranks) -> None:
    """Sum the gradients of all processes; a parameter that has none in any of them is left without."""
    if ranks.count == 1:
        return
    present = parameters[0].new_tensor([p.grad is not None for p in parameters])
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    ranks.sum_([present, *gradients])
    for parameter, gradient, count in zip(parameters, gradients, present.tolist(), strict=True):
        parameter.grad = gradient if count else None


def hyper_step(state: State, evidence: Evidence, data: Data, settings: Settings, draw: Draw) -> Estimate | None:
    """One gradient step on the evidence of whatever the method learns by it; None if that is nothing."""
    by = {"eta": settings.how.eta, "hyper": settings.how.prior}
    groups = [name for name in by if by[name] is By.EVIDENCE and name in state.optimisers]
    if not groups:
        return None
    state.track(*groups)
    for name in groups:
        state.optimisers[name].zero_grad()
    subset = settings.sampled(len(evidence.examples(data)))
    estimate = evidence.estimate(data, draw, subset)
    evidence.backward(data, estimate, min((n for n in (subset, settings.subset) if n is not None), default=None))
    for name in groups:
        state.optimisers[name].step()
    state.model.augmentation.saturate_()
    return estimate


@torch.no_grad()
def hyperparameters(state: State) -> dict[str, Any]:
    """The present hyperparameters as a record."""
    return {
        "ranges": dict(state.model.augmentation.ranges),
        "parameters": {name: p.tolist() for name, p in state.model.augmentation.named_parameters()},
        "precisions": {name: float(delta.mean()) for name, delta in state.prior.by_group().items()},
        "likelihood": {name: p.tolist() for name, p in state.likelihood.named_parameters()},
    }


def _parts(batch: Batch, size: int) -> Iterator[Batch]:
    yield from map(Batch, batch.index.split(size), batch.x.split(size), batch.y.split(size))


def _outputs(state: State, batch: Batch, average: Average, draw: Draw) -> tuple[Tensor, Tensor]:
    """Averaged outputs (b, c), and the sum of log p(y | 1/S sum_s f(x_s)), or of 1/S sum_s log p(y | f(x_s))."""
    size = len(batch.index)
    views = state.model.views(batch.x, state.model.draw(draw, batch.index, batch.x.dtype))
    if average is Average.FUNCTION:
        outputs = state.model.average(views, size)
        state.likelihood.check_targets(outputs.shape[1], batch.y)
        return outputs, state.likelihood.log_prob(outputs, batch.y).sum()
    each = state.model.average(views, len(views))  # every view on its own
    state.likelihood.check_targets(each.shape[1], batch.y)
    samples = len(views) // size
    log_likelihood = state.likelihood.log_prob(each, batch.y.repeat_interleave(samples, 0)).sum() / samples
    return each.detach().unflatten(0, (size, samples)).mean(1), log_likelihood


@torch.no_grad()
def _add_prior_gradient(state: State, examples: int) -> None:
    """Add the gradient of -1/N log p(theta), which is delta theta / N, to that of the weights."""
    precisions = state.prior.precisions()
    for name, weight in state.model.net.named_parameters():
        if weight.grad is not None:
            weight.grad.add_(precisions[name] * weight / examples)
