"""The paper's Algorithm 1: epochs of maximum a posteriori, and steps of eta and the rest on the evidence.

A step on the evidence follows an epoch, as in the paper, or comes while the epoch goes on, every few batches. Every
method runs through this loop; `lila.training.methods` says what each learns by what.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lila._util.choices import choose
from lila._util.memory import peak_bytes
from lila._util.ranks import ALONE, Ranks
from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError, NumericalError
from lila.laplace.evidence import Estimate, Evidence, Terms
from lila.laplace.passes import check_inputs, few_examples
from lila.model.checks import check_augmentation, check_likelihood, check_network
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical, Likelihood
from lila.model.prior import GaussianPrior
from lila.training.agreement import agreed
from lila.training.budget import choose_microbatch
from lila.training.checkpoint import CHECKPOINT, read_checkpoint, read_settings, write_checkpoint
from lila.training.hyper import HyperOptimiser
from lila.training.interruption import saved_on_interruption
from lila.training.methods import By
from lila.training.progress import ProgressName, telling
from lila.training.run import Run, write_description
from lila.training.scores import evaluate
from lila.training.settings import AveragesName, FinalName, PassesName, Resolved, Settings
from lila.training.state import State
from lila.training.steps import hyper_step, hyperparameters, train_epoch

_FINAL_PROBES = 10  # in the evidence of a finished run, which is exact for up to as many columns
_FINAL_EXAMPLES = 2_000  # whose log-likelihood stands for that of all, after a run that learned while it trained

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
    device: str | torch.device | None = None,
    settings: Settings | None = None,
    **changes: Any,
) -> Run:
    """Train a network and learn its invariances in one run.

    Inside a process group (torchrun) the processes share the examples and return the same run; the first one writes.

    Args:
        net: any network without batch norm; it is trained in place.
        data: a pair of tensors, or a map-style Dataset of (x, y).
        augmentation: the family of transformations whose ranges are learned; none for a plain network.
        likelihood: of the targets; `Categorical()` if None.
        test: data that is reported on after the last epoch, and never used for anything else.
        folder: where to write checkpoints; nothing is written if None.
        callbacks: functions that get the record of each epoch, in the first process if there are several.
        progress: "live" for a table that is renewed each epoch, "lines" for a line each, "silent", or "auto" for a
            table in a terminal and lines elsewhere.
        device: where to train; the network is moved there. Where the network is if None.
        settings: how to train.
        **changes: fields of `Settings` that differ from `settings` (or from the defaults).
    """
    _check_arguments(net, augmentation, likelihood)
    settings = Settings.from_dict(asdict(settings or Settings()) | changes).resolved(len(Examples(data)))
    with _given_back(augmentation, likelihood):
        state = _new_state(net.to(device), augmentation, likelihood or Categorical(), settings, data)
        ranks = agreed(state, settings, data)
        settings = replace(settings, microbatch=_microbatch(state, settings, data, ranks))
        state.hyper = _hyper_optimiser(state, settings, data, ranks)
        folder = None if folder is None else Path(folder)
        if folder is not None:
            with ranks.together(next(net.parameters()).device):
                if (folder / CHECKPOINT).exists():
                    raise ArgumentError(
                        f"{folder} already holds a run. Continue it with lila.resume, or choose another folder."
                    )
            if ranks.first:
                write_description(folder, settings, state.model, state.likelihood)
        way = choose(ProgressName, progress, "progress")
        return _train(state, data, test, folder, tuple(callbacks), way, settings, ranks)


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
    device: str | torch.device | None = None,
) -> Run:
    """Go on with a run that was interrupted, as if it had not been.

    Args:
        folder: that of the run, as given to `fit`.
        net: a network of the same architecture. Its weights are replaced, unless the run was interrupted before its
            first checkpoint: then it begins anew, from the weights given.
        data: the same data.
        augmentation: of the same kind; its parameters are replaced.
        likelihood: of the same kind.
        test: as in `fit`.
        callbacks: as in `fit`.
        progress: as in `fit`.
        device: as in `fit`.
    """
    _check_arguments(net, augmentation, likelihood)
    folder = Path(folder)
    settings = read_settings(folder)
    with _given_back(augmentation, likelihood):
        state = _new_state(net.to(device), augmentation, likelihood or Categorical(), settings, data)
        state.hyper = _hyper_optimiser(state, settings, data, Ranks.here())
        if (folder / CHECKPOINT).exists():
            tensors, state.epoch, state.history = read_checkpoint(folder)
            state.load_tensors(tensors, folder / CHECKPOINT)
        ranks = agreed(state, settings, data)
        if state.hyper is not None:
            state.hyper.running.leave_to_first()
        way = choose(ProgressName, progress, "progress")
        return _train(state, data, test, folder, tuple(callbacks), way, settings, ranks)


def _check_arguments(net: nn.Module, augmentation: Augmentation | None, likelihood: Likelihood | None) -> None:
    check_network(net)
    if augmentation is not None:
        check_augmentation(augmentation)
    if likelihood is not None:
        check_likelihood(likelihood)


@contextmanager
def _given_back(*modules: nn.Module | None) -> Iterator[None]:
    """Leave it to the user, however a run ends, which parameters of these modules are trainable."""
    before = [(p, p.requires_grad) for module in modules if module is not None for p in module.parameters()]
    try:
        yield
    finally:
        for parameter, trainable in before:
            parameter.requires_grad_(trainable)


def _microbatch(state: State, settings: Resolved, data: Data, ranks: Ranks) -> int:
    """The microbatch that was given, or the largest that fits into the memory of every process.

    It is chosen once and written down: a run that goes on elsewhere must not choose differently.
    """
    chosen, device = settings.microbatch, next(state.model.parameters()).device
    if chosen is None:
        with ranks.together(device):
            check_inputs(state.model, next(Examples(data, device).batches(1)).x)
            chosen = choose_microbatch(_evidence(state, replace(settings, microbatch=1), data), data, settings)
    return min(ranks.gather(chosen))


def _train(
    state: State,
    data: Data,
    test: Data | None,
    folder: Path | None,
    callbacks: tuple[Callback, ...],
    progress: ProgressName,
    settings: Resolved,
    ranks: Ranks,
) -> Run:
    """The loop: train the weights, step the hyperparameters, record, save. The first process writes and tells."""
    if not ranks.first:
        folder, callbacks, progress = None, (), ProgressName.SILENT
    examples = Examples(data, next(state.model.parameters()).device)
    evidence = _evidence(state, settings, data, ranks)
    if test is not None:
        check_inputs(state.model, next(Examples(test).batches(1)).x)
    if state.hyper is None:
        evidence.audit(data)
    shape = tuple(next(examples.batches(1)).x.shape[1:])
    with saved_on_interruption(state, folder) as keep, telling(progress, settings.epochs) as tell:
        for epoch in range(state.epoch, settings.epochs):
            record = _epoch(state, examples, evidence, data, settings, epoch, ranks)
            record["readable_ranges"] = dict(state.model.augmentation.readable_ranges(shape))
            state.epoch += 1
            if state.hyper is not None:
                state.hyper.running.consolidate()
            state.history.append(record)
            keep()
            last = state.epoch == settings.epochs
            if folder is not None and (last or state.epoch % settings.checkpoint_every == 0):
                write_checkpoint(folder, state.tensors(), state.epoch, state.history)
            for callback in (tell, *callbacks):
                callback(record)
    state.track("eta", "hyper")  # as the user gave them
    final = _final_evidence(state, settings, data, ranks)
    scores = None if test is None else evaluate(state.model, state.likelihood, test, evidence.microbatch, ranks)
    run = Run(settings, state.model, state.likelihood, state.prior, state.history, final, scores, shape)
    if folder is not None:
        run.write_result(folder)
    return run


def _evidence(state: State, settings: Resolved, data: Data, ranks: Ranks = ALONE, at_least: int = 1) -> Evidence:
    """The evidence as the settings say, with at least this many probes in its estimate."""
    assert settings.microbatch is not None, "chosen before training"
    probes, gradient_probes = settings.probe_counts(len(Examples(data)))
    probes = None if probes is None else max(probes, at_least)
    return Evidence(
        state.model,
        state.likelihood,
        state.prior,
        settings.structure,
        settings.curvature,
        probes,
        gradient_probes,
        settings.microbatch,
        settings.how.layers,
        settings.how.average,
        ranks,
        unbiased=settings.averages == AveragesName.UNBIASED,
    )


def _hyper_optimiser(state: State, settings: Resolved, data: Data, ranks: Ranks) -> HyperOptimiser | None:
    """What learns by the evidence while the weights are trained, if the settings ask for that."""
    learned = [By.EVIDENCE in (settings.how.eta, settings.how.prior), settings.passes == PassesName.RUNNING]
    if not all(learned):
        return None
    examples = Examples(data, next(state.model.parameters()).device)
    few, batches = few_examples(examples), ceil(len(examples) / settings.batch_size)
    return HyperOptimiser(
        _evidence(state, settings, data, ranks),
        len(examples),
        settings.epochs * batches,
        (few.x, few.y),
        batch_size=settings.batch_size,
        hyper_batch=settings.hyper_batch,
        every=settings.hyper_every,
        burn_in=None if settings.burn_in is None else settings.burn_in * batches,
        eta_lr=settings.eta_lr,
        eta_lr_end=settings.eta_lr_end,
        hyper_lr=settings.hyper_lr,
        learn_ranges=settings.how.eta is By.EVIDENCE,
        learn_prior=settings.how.prior is By.EVIDENCE,
        seed=settings.seed,
    )


def _final_evidence(state: State, settings: Resolved, data: Data, ranks: Ranks) -> Estimate:
    """The evidence of the finished run: by passes over all examples, or at a small part of the cost of the run."""
    draw, examples = Draw(settings.seed, 2 * settings.epochs), len(Examples(data))
    evidence = _evidence(state, settings, data, ranks, at_least=_FINAL_PROBES)
    if settings.final_evidence == FinalName.EXACT:
        exact = _evidence(state, replace(settings, passes=PassesName.EXACT, probes=None), data, ranks)
        return exact.estimate(data, draw)
    if settings.passes != PassesName.RUNNING:
        return evidence.estimate(data, draw)
    some = min(examples, _FINAL_EXAMPLES)
    if state.hyper is None or not state.hyper.running.knows_its_error:
        return evidence.estimate(data, draw, some)
    return state.hyper.estimate(evidence.log_likelihood(data, draw, some).of_all(examples))


def _epoch(
    state: State, examples: Examples, evidence: Evidence, data: Data, settings: Resolved, epoch: int, ranks: Ranks
) -> dict[str, Any]:
    """One epoch of the weights with its hyper-steps, those in it or the one after it; returns their record."""
    state.set_learning_rates(settings, epoch / max(settings.epochs - 1, 1))
    record: dict[str, Any] = {"epoch": epoch + 1}
    started, made = time.perf_counter(), 0 if state.hyper is None else state.hyper.hyper_steps
    try:
        record |= train_epoch(state, examples, settings, Draw(settings.seed, 2 * epoch), ranks)
        trained = time.perf_counter()
        terms: Terms | None = None
        if state.hyper is not None:
            terms, made = state.hyper.running.terms(), state.hyper.hyper_steps - made
        elif epoch >= (settings.burn_in or 0) and (epoch - (settings.burn_in or 0)) % (settings.hyper_every or 1) == 0:
            terms = hyper_step(state, evidence, data, settings, Draw(settings.seed, 2 * epoch + 1))
            made = int(terms is not None)
    except NumericalError as error:
        raise NumericalError(f"Epoch {epoch + 1}: {error}") from error
    if terms is not None:
        record["evidence"] = {"value": terms.value, **terms.terms()}
    record["hyper_steps"] = made
    record |= hyperparameters(state)
    record["peak_bytes"] = peak_bytes(next(state.model.parameters()).device)
    hyper = record.pop("hyper_seconds")
    record["seconds"] = {"weights": trained - started - hyper, "hyper": time.perf_counter() - trained + hyper}
    return record


def _new_state(
    net: nn.Module, augmentation: Augmentation | None, likelihood: Likelihood, settings: Resolved, data: Data
) -> State:
    how = settings.how
    plain = augmentation is None or not how.invariant
    like = next(net.parameters())
    chosen = Compose() if plain or augmentation is None else augmentation.to(like.device, like.dtype)
    if how.eta is By.NOTHING and chosen.ranges and not any(chosen.ranges.values()):
        raise ArgumentError(
            f"The method {settings.method!r} does not learn its ranges, and all of them are zero: give the "
            "augmentation ranges to start from, and to stay at (init=...)."
        )
    model = InvariantModel(net, chosen, 1 if plain else settings.samples, settings.noise)
    precision = settings.weight_decay * len(Examples(data)) if how.decays_weights else settings.precision
    prior = GaussianPrior(net, settings.prior, precision)
    return State.fresh(model, likelihood.to(like.device, like.dtype), prior, settings)
