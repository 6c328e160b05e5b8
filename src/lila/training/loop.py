"""The loop of the paper's Algorithm 1: train the weights, step the hyperparameters, record, save.

A step on the evidence follows an epoch, as in the paper, or comes while the epoch goes on, every few batches. Every
method runs through this loop; `lila.training.methods` says what each learns by which quantity.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from lila._util.memory import peak_bytes
from lila._util.ranks import Ranks
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.errors import NumericalError
from lila.laplace.evidence import Estimate, Evidence, Terms
from lila.laplace.passes import check_inputs
from lila.training.checkpoint import Checkpoint, CheckpointWriter
from lila.training.choices import FinalName, PassesName
from lila.training.history import EpochRecord, Seconds
from lila.training.interruption import saved_on_interruption
from lila.training.progress import ProgressName, displayed_progress
from lila.training.run import Run
from lila.training.scores import evaluate
from lila.training.settings import ResolvedSettings
from lila.training.setup import make_evidence
from lila.training.state import State
from lila.training.steps import hyper_step, train_epoch

_FINAL_PROBES = 10  # in the evidence of a finished run, which is exact for up to as many columns
_FINAL_EXAMPLES = 2_000  # whose log-likelihood stands for that of all, after a run that learned while it trained

Callback = Callable[[EpochRecord], None]


@dataclass(frozen=True)
class Watchers:
    """Who is told of each epoch.

    Attributes:
        callbacks: functions that get the record of each epoch.
        progress: how progress is displayed.
        writer: what writes checkpoints; None for a run without a folder.
    """

    callbacks: tuple[Callback, ...] = ()
    progress: ProgressName = ProgressName.SILENT
    writer: CheckpointWriter | None = None


def train(
    state: State, data: Data, settings: ResolvedSettings, *, test: Data | None, watchers: Watchers, ranks: Ranks
) -> Run:
    """Train to the last epoch. The first of several processes writes and displays."""
    if not ranks.first:
        watchers = Watchers()
    writer = watchers.writer
    examples = Examples(data, next(state.model.parameters()).device)
    evidence = make_evidence(state, settings, data, ranks)
    if state.hyper is None:
        evidence.audit(data)
    if test is not None:
        check_inputs(state.model, next(Examples(test).batches(1)).x)
    shape = tuple(next(examples.batches(1)).x.shape[1:])
    with (
        saved_on_interruption(state, writer) as keep,
        displayed_progress(watchers.progress, settings.epochs) as display,
    ):
        for epoch in range(state.epoch, settings.epochs):
            record = _epoch(state, data, evidence, settings=settings, epoch=epoch, ranks=ranks)
            record = replace(record, readable_ranges=dict(state.model.augmentation.readable_ranges(shape)))
            state.epoch += 1
            if state.hyper is not None:
                state.hyper.running.consolidate()
            state.history.append(record)
            keep()
            last = state.epoch == settings.epochs
            if writer is not None and (last or state.epoch % settings.checkpoint_every == 0):
                writer.write(Checkpoint(state.tensors(), state.epoch, state.history))
            for callback in (display, *watchers.callbacks):
                callback(record)
    state.track("eta", "hyper")  # as the user gave them
    final = _final_evidence(state, settings, data, ranks)
    scores = None if test is None else evaluate(state.model, state.likelihood, test, evidence.microbatch, ranks)
    return Run(
        settings=settings,
        model=state.model,
        likelihood=state.likelihood,
        prior=state.prior,
        history=state.history,
        evidence=final,
        test=scores,
        shape=shape,
        examples=len(examples),
    )


def _epoch(
    state: State, data: Data, evidence: Evidence, *, settings: ResolvedSettings, epoch: int, ranks: Ranks
) -> EpochRecord:
    """Do one epoch of the weights with its hyper-steps, in it or after it; return the record of the epoch."""
    state.set_learning_rates(settings, epoch / max(settings.epochs - 1, 1))
    started, made = time.perf_counter(), 0 if state.hyper is None else state.hyper.hyper_steps
    try:
        examples = Examples(data, next(state.model.parameters()).device)
        trained = train_epoch(state, examples, settings, Draw(settings.seed, 2 * epoch), ranks)
        weights_done = time.perf_counter()
        terms: Terms | None = None
        if state.hyper is not None:
            terms, made = state.hyper.running.terms(), state.hyper.hyper_steps - made
        elif epoch >= (settings.burn_in or 0) and (epoch - (settings.burn_in or 0)) % (settings.hyper_every or 1) == 0:
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


def _final_evidence(state: State, settings: ResolvedSettings, data: Data, ranks: Ranks) -> Estimate:
    """The evidence of the finished run: by passes over all examples, or at a small part of the cost of the run."""
    draw, examples = Draw(settings.seed, 2 * settings.epochs), len(Examples(data))
    evidence = make_evidence(state, settings, data, ranks, at_least=_FINAL_PROBES)
    if settings.final_evidence == FinalName.EXACT:
        exact = make_evidence(state, replace(settings, passes=PassesName.EXACT, probes=None), data, ranks)
        return exact.estimate(data, draw)
    if settings.passes != PassesName.RUNNING:
        return evidence.estimate(data, draw)
    some = min(examples, _FINAL_EXAMPLES)
    if state.hyper is None or not state.hyper.running.knows_its_error:
        return evidence.estimate(data, draw, some)
    return state.hyper.estimate(evidence.log_likelihood(data, draw, some).of_all(examples))
