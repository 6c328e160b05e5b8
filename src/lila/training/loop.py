"""The loop of the paper's Algorithm 1: train the weights, step the hyperparameters, record, save.

A step on the evidence follows an epoch, as in the paper, or comes while the epoch goes on, every few batches. Every
method runs through this loop; `lila.training.methods` says what each learns by which quantity.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

import torch

from lila._util.memory import peak_bytes
from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.errors import DataError, NumericalError
from lila.laplace.checks import check_inputs
from lila.laplace.evidence import Evidence
from lila.laplace.terms import Terms
from lila.training.announcement import announcement
from lila.training.checkpoint import Checkpoint, CheckpointWriter
from lila.training.description import TaskDescription
from lila.training.final import final_evidence, final_scores
from lila.training.forecast import follows_epoch
from lila.training.history import EpochRecord, Seconds
from lila.training.interruption import saved_on_interruption
from lila.training.progress import SILENCE, Display, ProgressName, WholeRun, displayed_progress
from lila.training.range_errors import range_errors
from lila.training.rehearsal import foretold_bytes, rehearse, rehearse_with_comparison
from lila.training.run import Run
from lila.training.scores import predict
from lila.training.settings import ResolvedSettings
from lila.training.setup import make_evidence
from lila.training.state import State
from lila.training.steps import hyper_step, train_epoch

Callback = Callable[[EpochRecord], object]
"""Gets the record of each epoch; if it returns `STOP`, the run ends after this epoch."""


class Answer(Enum):
    """What a callback may return."""

    STOP = "stop"


STOP = Answer.STOP
"""Returned by a callback, it ends the run after this epoch: the checkpoint is whole, and `fit` returns the run."""


@dataclass(frozen=True)
class Watchers:
    """Who is told of each epoch.

    Attributes:
        callbacks: functions that get the record of each epoch, and may stop the run.
        progress: how progress is displayed.
        writer: what writes checkpoints; None for a run without a folder.
        task: what `lila train` made the run from, if it did.
        baseline: whether the same network is trained without invariance afterwards.
    """

    callbacks: tuple[Callback, ...] = ()
    progress: ProgressName = ProgressName.SILENT
    writer: CheckpointWriter | None = None
    task: TaskDescription | None = None
    baseline: bool = False


def _check_test(state: State, shape: tuple[int, ...], test: Examples) -> None:
    """Raise DataError if the test data do not fit the training data, before an epoch is spent.

    If they are tensors, all of the targets are checked, and those of a first example otherwise.
    """
    first = next(test.batches(1))
    if tuple(first.x.shape[1:]) != shape:
        raise DataError(f"Test inputs have shape {tuple(first.x.shape[1:])}, but training inputs {shape}.")
    check_inputs(state.model, first.x)
    with torch.no_grad():
        outputs = predict(state.model, first.x).shape[1]
    state.likelihood.check_targets(outputs, first.y if test.tensors is None else test.tensors[1])


def train(
    state: State, data: Data, settings: ResolvedSettings, *, test: Data | None, watchers: Watchers, ranks: Ranks
) -> Run:
    """Train to the last epoch, or until a callback stops the run. The first process writes and displays."""
    if not ranks.first:
        watchers = Watchers(task=watchers.task)
    writer = watchers.writer
    examples = Examples(data, next(state.model.parameters()).device)
    evidence = make_evidence(state, settings, data, ranks)
    if state.hyper is None:
        evidence.audit(data)
    shape = tuple(next(examples.batches(1)).x.shape[1:])
    if test is not None:
        _check_test(state, shape, Examples(test, examples.device))
    with (
        saved_on_interruption(state, writer) as keep,
        _watched(state, data, settings, test=test, watchers=watchers, ranks=ranks) as display,
    ):
        for epoch in range(state.epoch, settings.epochs):
            record = _epoch(state, data, evidence, settings=settings, epoch=epoch, ranks=ranks, watch=display.within)
            record = replace(record, readable_ranges=dict(state.model.augmentation.readable_ranges(shape)))
            state.epoch += 1
            if state.hyper is not None:
                state.hyper.consolidate()
            state.history.append(record)
            keep()
            due = state.epoch == settings.epochs or state.epoch % settings.checkpoint_every == 0
            if writer is not None and due:
                writer.write(Checkpoint(state.tensors(), state.epoch, state.history))
            display.epoch(record)
            answers = [callback(record) for callback in watchers.callbacks]  # all of them, also after one that stops
            if any(ranks.gather(any(answer is STOP for answer in answers))):
                if writer is not None and not due:
                    writer.write(Checkpoint(state.tensors(), state.epoch, state.history))
                break
    state.track("eta", "hyper")  # as the user gave them
    final = final_evidence(state, settings, data, ranks)
    scores = final_scores(state, settings, data, test, ranks)
    return Run(
        settings=settings,
        model=state.model,
        likelihood=state.likelihood,
        prior=state.prior,
        history=state.history,
        evidence=final,
        test=scores.test,
        confusion=scores.confusion,
        calibration=scores.calibration,
        shape=shape,
        examples=len(examples),
        baselines=scores.baselines,
        never_predicted=scores.never_predicted,
        class_names=examples.class_names,
        task=watchers.task,
        range_errors=range_errors(state, settings, data, final, ranks),
    )


@contextmanager
def _watched(
    state: State, data: Data, settings: ResolvedSettings, *, test: Data | None, watchers: Watchers, ranks: Ranks
) -> Iterator[Display]:
    """Announce the run with a forecast of its cost, and open the display; a silent run is not measured."""
    if watchers.progress is ProgressName.SILENT:
        yield SILENCE
        return
    forecast = None
    if state.epoch < settings.epochs:
        forecast = (rehearse_with_comparison if watchers.baseline else rehearse)(
            state, data, settings, test=test, ranks=ranks
        )
        memory = foretold_bytes(state, keeps_checkpoint=watchers.writer is not None)
        announced = announcement(state, data, settings, test=test, task=watchers.task, forecast=forecast, memory=memory)
        print(announced, file=sys.stderr, flush=True)
    left = None if forecast is None else partial(forecast.left, state.history)
    with displayed_progress(watchers.progress, WholeRun(settings.epochs, len(Examples(data)), left)) as display:
        yield display


def _epoch(
    state: State,
    data: Data,
    evidence: Evidence,
    *,
    settings: ResolvedSettings,
    epoch: int,
    ranks: Ranks,
    watch: Callable[[float], None],
) -> EpochRecord:
    """Do one epoch of the weights with its hyper-steps, in it or after it; return the record of the epoch."""
    state.set_learning_rates(settings, epoch / max(settings.epochs - 1, 1))
    started, made = time.perf_counter(), 0 if state.hyper is None else state.hyper.hyper_steps
    try:
        examples = Examples(data, next(state.model.parameters()).device)
        trained = train_epoch(state, examples, settings, Draw(settings.seed, 2 * epoch), ranks, watch=watch)
        weights_done = time.perf_counter()
        terms: Terms | None = None
        if state.hyper is not None:
            terms, made = state.hyper.running.terms(), state.hyper.hyper_steps - made
        elif follows_epoch(settings, epoch):
            terms = hyper_step(state, evidence, data, settings, Draw(settings.seed, 2 * epoch + 1))
            made = int(terms is not None)
        state.check_finite()
        hyper = time.perf_counter() - weights_done + trained.hyper_seconds
        return EpochRecord(
            epoch=epoch + 1,
            loss=trained.loss,
            accuracy=trained.accuracy,
            evidence=None if terms is None else Terms(**terms.terms()),
            hyper_steps=made,
            **state.hyperparameters(),
            peak_bytes=peak_bytes(next(state.model.parameters()).device),
            seconds=Seconds(weights_done - started - trained.hyper_seconds, hyper),
        )
    except NumericalError as error:
        raise NumericalError(f"Epoch {epoch + 1}: {error}") from error
