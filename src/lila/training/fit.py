"""The paper's Algorithm 1: epochs of maximum a posteriori, each followed by a step of eta and the rest on the evidence.

Every method runs through this loop; `lila.training.methods` says what each learns by what.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.choices import choose
from lila.data.examples import Batch, Data, Examples
from lila.errors import ArgumentError, NumericalError
from lila.evidence import Estimate, Evidence
from lila.invariant import InvariantModel
from lila.likelihood import Categorical, Likelihood
from lila.memory import peak_bytes
from lila.noise import Draw
from lila.prior import GaussianPrior
from lila.training.budget import choose_microbatch
from lila.training.checkpoint import CHECKPOINT, read_checkpoint, read_settings, write_checkpoint
from lila.training.methods import Average, By
from lila.training.progress import ProgressName, telling
from lila.training.run import Run, write_description
from lila.training.scores import evaluate
from lila.training.settings import Settings
from lila.training.state import State

Callback = Callable[[dict[str, Any]], None]


def fit(
    net: nn.Module,
    data: Data,
    augmentation: Augmentation | None = None,
    *,
    likelihood: Likelihood | None = None,
    test: Data | None = None,
    folder: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
    progress: str = "auto",
    settings: Settings | None = None,
    **changes: Any,
) -> Run:
    """Train a network and learn its invariances in one run.

    Args:
        net: any network without batch norm; it is trained in place.
        data: a pair of tensors, or a map-style Dataset of (x, y).
        augmentation: the family of transformations whose ranges are learned; none for a plain network.
        likelihood: of the targets; `Categorical()` if None.
        test: data that is reported on after the last epoch, and never used for anything else.
        folder: where to write checkpoints; nothing is written if None.
        callbacks: functions that get the record of each epoch.
        progress: "live" for a table that is renewed each epoch, "lines" for a line each, "silent", or "auto" for a
            table in a terminal and lines elsewhere.
        settings: how to train.
        **changes: fields of `Settings` that differ from `settings` (or from the defaults).
    """
    settings = Settings.from_dict(asdict(settings or Settings()) | changes)
    state = _new_state(net, augmentation, likelihood or Categorical(), settings, data)
    if settings.microbatch is None:
        # Chosen once and written down: a run that goes on elsewhere must not choose differently.
        trial = _evidence(state, replace(settings, microbatch=1))
        settings = replace(settings, microbatch=choose_microbatch(trial, data, settings.memory, settings.batch_size))
    if folder is not None:
        folder = Path(folder)
        if (folder / CHECKPOINT).exists():
            raise ArgumentError(
                f"{folder} already holds a run. Continue it with lila.resume, or choose another folder."
            )
        write_description(folder, settings, state.model, state.likelihood)
    return _train(state, data, test, folder, tuple(callbacks), choose(ProgressName, progress, "progress"), settings)


def resume(
    folder: str | Path,
    net: nn.Module,
    data: Data,
    augmentation: Augmentation | None = None,
    *,
    likelihood: Likelihood | None = None,
    test: Data | None = None,
    callbacks: Iterable[Callback] = (),
    progress: str = "auto",
) -> Run:
    """Go on with a run that was interrupted, as if it had not been.

    Args:
        folder: that of the run, as given to `fit`.
        net: a network of the same architecture; its weights are replaced.
        data: the same data.
        augmentation: of the same kind; its parameters are replaced.
        likelihood: of the same kind.
        test: as in `fit`.
        callbacks: as in `fit`.
        progress: as in `fit`.
    """
    folder = Path(folder)
    settings = read_settings(folder)
    state = _new_state(net, augmentation, likelihood or Categorical(), settings, data)
    if (folder / CHECKPOINT).exists():
        tensors, state.epoch, state.history = read_checkpoint(folder)
        state.load_tensors(tensors)
    return _train(state, data, test, folder, tuple(callbacks), choose(ProgressName, progress, "progress"), settings)


def _train(
    state: State,
    data: Data,
    test: Data | None,
    folder: Path | None,
    callbacks: tuple[Callback, ...],
    progress: ProgressName,
    settings: Settings,
) -> Run:
    """The loop: train the weights, step the hyperparameters, record, save."""
    examples = Examples(data, next(state.model.parameters()).device)
    evidence = _evidence(state, settings)
    shape = tuple(next(examples.batches(1)).x.shape[1:])
    with _saved_on_interruption(state, folder) as keep, telling(progress, settings.epochs) as tell:
        for epoch in range(state.epoch, settings.epochs):
            record = _epoch(state, examples, evidence, data, settings, epoch)
            record["readable_ranges"] = dict(state.model.augmentation.readable_ranges(shape))
            state.epoch += 1
            state.history.append(record)
            keep()
            last = state.epoch == settings.epochs
            if folder is not None and (last or state.epoch % settings.checkpoint_every == 0):
                write_checkpoint(folder, state.tensors(), state.epoch, state.history)
            for callback in (tell, *callbacks):
                callback(record)
    final = None
    if settings.how.average is Average.FUNCTION:
        final = evidence.estimate(data, Draw(settings.seed, 2 * settings.epochs))
    scores = None if test is None else evaluate(state.model, state.likelihood, test, evidence.microbatch)
    run = Run(settings, state.model, state.likelihood, state.prior, state.history, final, scores, shape)
    if folder is not None:
        run.write_result(folder)
    return run


def _evidence(state: State, settings: Settings) -> Evidence:
    assert settings.microbatch is not None, "chosen before training"
    return Evidence(
        state.model,
        state.likelihood,
        state.prior,
        settings.structure,
        settings.curvature,
        settings.probes,
        settings.gradient_probes,
        settings.microbatch,
        settings.how.layers,
    )


def _epoch(
    state: State, examples: Examples, evidence: Evidence, data: Data, settings: Settings, epoch: int
) -> dict[str, Any]:
    """One epoch of the weights and, when it is due, a hyper-step; returns their record."""
    state.set_learning_rates(settings)
    record: dict[str, Any] = {"epoch": epoch + 1}
    started = time.perf_counter()
    try:
        record |= train_epoch(state, examples, settings, Draw(settings.seed, 2 * epoch))
        trained = time.perf_counter()
        if epoch >= settings.burn_in and (epoch - settings.burn_in) % settings.hyper_every == 0:
            estimate = hyper_step(state, evidence, data, settings, Draw(settings.seed, 2 * epoch + 1))
            if estimate is not None:
                record["evidence"] = {"value": estimate.value, **estimate.terms()}
    except NumericalError as error:
        raise NumericalError(f"Epoch {epoch + 1}: {error}") from error
    record |= hyperparameters(state)
    record["peak_bytes"] = peak_bytes(next(state.model.parameters()).device)
    record["seconds"] = {"weights": trained - started, "hyper": time.perf_counter() - trained}
    return record


@contextmanager
def _saved_on_interruption(state: State, folder: Path | None) -> Iterator[Callable[[], None]]:
    """Write the state that was last kept to a checkpoint when Ctrl-C or SIGTERM ends the run.

    The state is whole between epochs only, so it is kept (copied) there, and what a half epoch did is done again.
    """
    kept: list[tuple[dict[str, Tensor], int, list[dict[str, Any]]]] = []

    def keep() -> None:
        if folder is not None:
            kept[:] = [({k: v.clone() for k, v in state.tensors().items()}, state.epoch, list(state.history))]

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if in_main_thread else None
    keep()
    try:
        yield keep
    except (KeyboardInterrupt, SystemExit):
        if folder is not None and kept:
            write_checkpoint(folder, *kept[0])
        raise
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def train_epoch(state: State, examples: Examples, settings: Settings, draw: Draw) -> dict[str, float]:
    """One pass of the weights over the data in a random order; returns the mean loss, and for classes the accuracy.

    A batch's step descends  -1/B sum_b log p(y_b | f_hat(x_b)) - 1/N log p(theta),  minus Augerino's reward for eta.
    """
    state.model.train()
    state.track(*["eta"] * (settings.how.eta is By.LOSS))
    stepping = [state.optimisers[name] for name in ("weights", "eta") if _steps_with_weights(name, state, settings)]
    total, correct = 0.0, 0
    for batch in examples.batches(settings.batch_size, draw.permutation(len(examples))):
        for optimiser in stepping:
            optimiser.zero_grad()
        for part in _parts(batch, settings.microbatch or settings.batch_size):
            outputs, log_likelihood = _outputs(state, part, settings.how.average, draw)
            (-log_likelihood / len(batch.index)).backward()
            total += float(log_likelihood.detach())
            if isinstance(state.likelihood, Categorical):
                correct += int((outputs.argmax(1) == part.y).sum())
        _add_prior_gradient(state, len(examples))
        if settings.how.rewards_eta and "eta" in state.optimisers:
            eta = torch.cat([p.flatten() for p in state.model.augmentation.parameters()])
            (-settings.eta_reward * eta.norm()).backward()
        for optimiser in stepping:
            optimiser.step()
        state.model.augmentation.saturate_()
    if not isfinite(total):
        raise NumericalError("The training loss is not finite. Lower the learning rate, or compute in float64.")
    count = len(examples)
    return {"loss": -total / count} | (
        {"accuracy": correct / count} if isinstance(state.likelihood, Categorical) else {}
    )


def hyper_step(state: State, evidence: Evidence, data: Data, settings: Settings, draw: Draw) -> Estimate | None:
    """One gradient step on the evidence of whatever the method learns by it; None if that is nothing."""
    by = {"eta": settings.how.eta, "hyper": settings.how.prior}
    groups = [name for name in by if by[name] is By.EVIDENCE and name in state.optimisers]
    if not groups:
        return None
    state.track(*groups)
    estimate = evidence.estimate(data, draw)
    for name in groups:
        state.optimisers[name].zero_grad()
    evidence.backward(data, estimate, settings.subset)
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


def _steps_with_weights(name: str, state: State, settings: Settings) -> bool:
    return name == "weights" or (settings.how.eta is By.LOSS and name in state.optimisers)


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


def _new_state(
    net: nn.Module, augmentation: Augmentation | None, likelihood: Likelihood, settings: Settings, data: Data
) -> State:
    how = settings.how
    plain = augmentation is None or not how.invariant
    like = next(net.parameters())
    chosen = Compose() if plain or augmentation is None else augmentation.to(like.device, like.dtype)
    model = InvariantModel(net, chosen, 1 if plain else settings.samples)
    precision = settings.weight_decay * len(Examples(data)) if how.decays_weights else settings.precision
    prior = GaussianPrior(net, settings.prior, precision)
    return State.fresh(model, likelihood.to(like.device, like.dtype), prior, settings)
