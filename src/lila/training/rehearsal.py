"""The forecast of a run, from one step of each kind that is measured on the data without changing the state."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import ceil
from time import perf_counter

import torch
from torch import Tensor, nn

from lila._util.memory import peak_bytes
from lila._util.ranks import ALONE, Ranks
from lila.augment.noise import Draw
from lila.data.examples import Batch, Data, Examples
from lila.training.final import FINAL_EXAMPLES, FINAL_PROBES, estimates_by_a_pass
from lila.training.forecast import Forecast, StepCounts, StepSeconds, hyper_epochs
from lila.training.hyper import HyperOptimiser
from lila.training.methods import LearnedBy, MethodName
from lila.training.optimisers import optimised, trainable
from lila.training.range_errors import cost_in_hyper_steps
from lila.training.settings import ResolvedSettings
from lila.training.setup import make_evidence, make_hyper_optimiser, new_state
from lila.training.state import State
from lila.training.steps import log_likelihoods_of_step

_REPEATS = 3  # measurements after a first one, of which the median counts
_PATIENCE = 2.0  # seconds after which a step is not measured again
_PASSED = 32  # examples of a pass that is measured, at most


def rehearse(state: State, data: Data, settings: ResolvedSettings, *, test: Data | None, ranks: Ranks) -> Forecast:
    """Measure a step of each kind in this process, and foretell the time of the run.

    No process waits for another meanwhile. The state stays as it is, but for which parameters are trainable.
    """
    examples = Examples(data, next(state.model.parameters()).device)
    batches = ceil(len(examples) / settings.batch_size)
    weights = _step_of_weights(state, examples, settings, ranks)
    hyper, decomposition, per_hyper_step = 0.0, 0.0, 0.0
    counts = hyper_epochs(settings)
    if state.hyper is not None:
        counts = (batches / state.hyper.every,) * settings.epochs
        hyper, decomposition, interval = _running_step(state.hyper, examples, settings, ranks)
        per_hyper_step = 1 / interval
    elif any(counts):
        hyper = _passes(state, data, settings, ranks)
    scored = 0 if test is None else len(Examples(test))
    errors = hyper * cost_in_hyper_steps(state, settings, len(examples), hyper_steps=sum(counts))
    end = _end(state, data, settings, scored=scored, ranks=ranks) + decomposition + errors
    return Forecast(StepCounts(batches, counts, per_hyper_step), StepSeconds(weights, hyper, decomposition, end))


def rehearse_with_comparison(
    state: State, data: Data, settings: ResolvedSettings, *, test: Data | None, ranks: Ranks
) -> Forecast:
    """Foretell the time of a run that the training of the same network without invariance follows."""
    forecast = rehearse(state, data, settings, test=test, ranks=ranks)
    plainly = replace(settings, method=MethodName.NON_INVARIANT.value)
    plain = new_state(*deepcopy((state.model.net, None, state.likelihood)), plainly, data)
    plain.hyper = make_hyper_optimiser(plain, plainly, data, ALONE)
    comparison = rehearse(plain, data, plainly, test=test, ranks=ranks).total()
    return replace(forecast, seconds=replace(forecast.seconds, comparison=comparison))


def foretold_bytes(state: State, *, keeps_checkpoint: bool) -> int:
    """Return about how much memory a run takes at its peak, after its steps were rehearsed in this process.

    Args:
        state: the state before the first epoch.
        keeps_checkpoint: whether a copy of the state is kept for when the run is interrupted.
    """
    moments = sum(2 * p.nbytes for p in optimised(state.optimisers["weights"]))
    kept = sum(tensor.nbytes for tensor in state.tensors().values()) + moments if keeps_checkpoint else 0
    return peak_bytes(next(state.model.parameters()).device) + moments + kept


def _timed(step: Callable[[], object], device: torch.device) -> float:
    """Return the median seconds of a step, after a first one that warms up."""

    def once() -> float:
        started = perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return perf_counter() - started

    first = once()
    if first > _PATIENCE:
        return first
    return sorted(once() for _ in range(_REPEATS))[_REPEATS // 2]


def _step_of_weights(state: State, examples: Examples, settings: ResolvedSettings, ranks: Ranks) -> float:
    """Return the seconds of a step of the weights on a batch: reading it, gradients, and the optimiser."""
    size = ceil(min(settings.batch_size, len(examples)) / ranks.count)
    count = min(size, settings.weight_microbatch)
    by_loss = settings.procedure.eta is LearnedBy.LOSS and "eta" in state.optimisers
    groups = ["weights", "eta"] if by_loss else ["weights"]
    state.track(*groups)
    parameters = [p for name in groups for p in optimised(state.optimisers[name])]
    index = Draw().permutation(len(examples))[:count]

    def gradients() -> tuple[Tensor | None, ...]:
        batch = next(examples.batches(count, index))
        _, each = log_likelihoods_of_step(state, batch, settings, Draw())
        with torch.no_grad():
            state.prior.precisions()
        return torch.autograd.grad(each.sum(), parameters, allow_unused=True)

    device = parameters[0].device
    with torch.enable_grad():
        seconds = _timed(gradients, device)
    return seconds * size / count + _timed(_optimiser_step(state, groups), device)


def _optimiser_step(state: State, groups: list[str]) -> Callable[[], None]:
    """Return a function that takes a step of the optimisers on copies of their parameters."""
    copies = []
    for name in groups:
        optimiser = state.optimisers[name]
        parameters = [nn.Parameter(p.detach().clone()) for p in optimised(optimiser)]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        new = state.new_optimiser if name == "weights" else None
        copies.append(torch.optim.Adam(parameters) if new is None else new(parameters))

    def step() -> None:
        for copy in copies:
            copy.step()

    return step


def _running_step(
    hyper: HyperOptimiser, examples: Examples, settings: ResolvedSettings, ranks: Ranks
) -> tuple[float, float, int]:
    """Return the seconds of a hyper-step and of a decomposition, and the hyper-steps from one of these to the next."""
    rehearsed = hyper.running.blank()
    count = ceil(min(settings.hyper_batch, settings.batch_size, len(examples)) / ranks.count)
    batch: Batch = next(examples.batches(count))
    device = batch.x.device
    with trainable([p for optimiser in hyper.optimisers.values() for p in optimised(optimiser)]):
        step = _timed(lambda: rehearsed.add(batch, Draw(), count), device)
    decomposition = _timed(lambda: rehearsed.decompose(move_prior=False), device)
    assert rehearsed.curvature is not None
    return step, decomposition, hyper.decomposition_interval(rehearsed.curvature)


def _passes(state: State, data: Data, settings: ResolvedSettings, ranks: Ranks) -> float:
    """Return the seconds of the two passes over the data that follow an epoch, with the decomposition."""
    evidence = make_evidence(state, settings, data)
    whole = len(Examples(data))
    estimated = settings.examples_per_estimate(whole) or whole
    differentiated = min(estimated, settings.gradient_examples or estimated)
    count = min(settings.microbatch or _PASSED, _PASSED, whole)
    by = {"eta": settings.procedure.eta, "hyper": settings.procedure.prior}
    state.track(*(name for name in by if by[name] is LearnedBy.EVIDENCE and name in state.optimisers))
    estimate = evidence.estimate(data, Draw(), count, audit=False)
    device = next(state.model.parameters()).device
    decomposition = _timed(lambda: estimate.curvature.scaled(1.0).decomposed(evidence.ranks), device)
    first = _timed(lambda: evidence.estimate(data, Draw(), count, audit=False), device) - decomposition
    second = _timed(lambda: evidence.gradient(data, estimate, count), device)
    shared = count * ranks.count
    return max(first, 0.0) * estimated / shared + second * differentiated / shared + decomposition


def _end(state: State, data: Data, settings: ResolvedSettings, *, scored: int, ranks: Ranks) -> float:
    """Return the seconds of the final evidence, but for decompositions, and of the scores on the test data."""
    examples = Examples(data, next(state.model.parameters()).device)
    evidence = make_evidence(state, settings, data, at_least=FINAL_PROBES)
    count = min(evidence.microbatch, _PASSED, len(examples))
    batch = next(examples.batches(count))
    noise = state.model.fixed_noise(batch.x)
    with torch.no_grad():
        predicted = _timed(lambda: state.model(batch.x, noise), batch.x.device) / count
    if estimates_by_a_pass(state, settings):
        passed = _timed(lambda: evidence.estimate(data, Draw(), count, audit=False), batch.x.device) / count
        whole = len(examples) if state.hyper is None and settings.passes != "running" else FINAL_EXAMPLES
        return (min(whole, len(examples)) * passed + scored * predicted) / ranks.count
    return (min(FINAL_EXAMPLES, len(examples)) + scored) * predicted / ranks.count
