"""Training a network and learning its invariances in one run: from the start, or from where it was interrupted."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, asdict, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lila._util.choices import choose
from lila._util.denormals import flush_denormals
from lila._util.ranks import Ranks
from lila.augment.base import Augmentation
from lila.curvature.finding import check_examples_apart
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError
from lila.model.checks import check_augmentation, check_device, check_likelihood, check_network
from lila.model.likelihood import Categorical, Likelihood
from lila.training.agreement import start_alike
from lila.training.checkpoint import CHECKPOINT, CheckpointWriter, read_checkpoint
from lila.training.description import RunDescription, TaskDescription, read_description
from lila.training.lock import locked
from lila.training.loop import Callback, Watchers, train
from lila.training.plain import has_plain_counterpart, with_plain_network
from lila.training.progress import ProgressName
from lila.training.result import discard_result, write_result
from lila.training.run import Run
from lila.training.settings import ResolvedSettings, Settings
from lila.training.setup import (
    batches_per_epoch,
    freeze_as_asked,
    make_hyper_optimiser,
    new_state,
    settled_arithmetic,
    settled_microbatch,
)
from lila.training.weights_optimiser import NOT_OWN, MakeOptimiser, MakeSchedule, OwnOptimisation, named_or_own


def fit(
    net: nn.Module,
    data: Data,
    augmentation: Augmentation | None = None,
    *,
    likelihood: Likelihood | None = None,
    test: Data | None = None,
    folder: str | Path | None = None,
    optimiser: str | MakeOptimiser | None = None,
    schedule: str | MakeSchedule | None = None,
    callbacks: Iterable[Callback] = (),
    progress: str = "auto",
    device: str | torch.device | None = None,
    baseline: bool = False,
    task: TaskDescription | None = None,
    settings: Settings | None = None,
    **changes: Any,
) -> Run:
    """Train a network and learn its invariances in one run.

    Inside a process group (torchrun) the processes share the examples and return the same run; the first one writes.

    Args:
        net: any network whose examples do not influence each other; it is trained in place. Each of its modules stays
            in the mode, train() or eval(), that it is in: dropout must be off, and batch norm in eval() mode
            (`lila.freeze_statistics`).
        data: a pair of tensors, or a map-style Dataset of (x, y).
        augmentation: the family of transformations whose ranges are learned; none for a plain network.
        likelihood: of the targets; `Categorical()` if None.
        test: data that is reported on after the last epoch, and never used for anything else.
        folder: where to write checkpoints; nothing is written if None. No other process may train there meanwhile.
        optimiser: of the weights, by name (see `Settings`) or as a function that gets the list of weights and makes a
            torch.optim.Optimizer of them. A run that is resumed must be given the function again.
        schedule: of the weights' learning rate, by name (see `Settings`) or as a function that gets the optimiser and
            makes a torch.optim.lr_scheduler.LRScheduler of it.
        callbacks: functions that get the `EpochRecord` of each epoch, in the first process if there are several. One
            that returns `lila.STOP` ends the run after this epoch.
        progress: "live" for a table that is renewed each epoch, "lines" for a line each, "silent", or "auto" for a
            table in a terminal and lines elsewhere.
        device: where to train; the network is moved there. Where the network is if None.
        baseline: whether to train the same network without invariance too, after the run and from the same first
            weights, and to say in the run what it is worth. It costs about as much as a plain training, and has a
            folder of its own inside of the run's.
        task: what network and data were made from, to be written into the folder; `lila train` gives it.
        settings: how to train.
        **changes: fields of `Settings` that differ from `settings` (or from the defaults).
    """
    callbacks = _checked_arguments(net, augmentation, likelihood, callbacks=callbacks, device=device)
    named, own = named_or_own(optimiser, schedule)
    given = Settings.from_dict(asdict(settings or Settings()) | changes | named, beside=signature(fit).parameters)
    chosen = given.resolved(len(Examples(data)))
    way, ranks = choose(ProgressName, progress, "progress"), Ranks.here()
    folder = None if folder is None else Path(folder)
    net.to(device)
    baseline = baseline and has_plain_counterpart(chosen, augmentation)
    first_net, first_likelihood = deepcopy((net, likelihood)) if baseline else (net, likelihood)
    with flush_denormals(), _trainable_as_before(augmentation, likelihood), _held(folder, ranks, net):
        with ranks.together(next(net.parameters()).device):
            if folder is not None and (folder / CHECKPOINT).exists():
                raise ArgumentError(
                    f"{folder} already holds a run. Continue it with lila.resume, or choose another folder."
                )
        freeze_as_asked(net, chosen, data)
        state = new_state(net, augmentation, likelihood or Categorical(), chosen, data, own=own)
        start_alike(state, chosen, data, ranks)
        arithmetic = settled_arithmetic(chosen, next(net.parameters()).device, ranks)
        chosen = replace(chosen, microbatch=settled_microbatch(state, chosen, data, ranks), arithmetic=arithmetic)
        state.hyper = make_hyper_optimiser(state, chosen, data, ranks)
        description = RunDescription.of(chosen, state.model, state.likelihood, task, baseline=baseline)
        writer = None
        if folder is not None and ranks.first:
            description.write(folder)
            writer = CheckpointWriter(folder, description.run)
        watchers = Watchers(callbacks, way, writer, task, baseline)
        run = train(state, data, chosen, test=test, watchers=watchers, ranks=ranks)
        if folder is not None and ranks.first:
            write_result(folder, run, description.run)
        if not baseline:
            return run
        plain = PlainTraining(first_net, data, first_likelihood, test, progress=way, task=task, own=own)
        return _compared(run, plain, folder, description)


def resume(
    folder: str | Path,
    net: nn.Module,
    data: Data,
    augmentation: Augmentation | None = None,
    *,
    likelihood: Likelihood | None = None,
    test: Data | None = None,
    optimiser: MakeOptimiser | None = None,
    schedule: MakeSchedule | None = None,
    callbacks: Iterable[Callback] = (),
    progress: str = "auto",
    device: str | torch.device | None = None,
) -> Run:
    """Go on with a run that was interrupted or stopped, as if it had not been.

    If the run is finished and was to be compared with the same network without invariance (`fit(..., baseline=True)`),
    this goes on with that.

    Args:
        folder: that of the run, as given to `fit`.
        net: a network of the same architecture. Its weights are replaced, unless the run was interrupted before its
            first checkpoint: then it begins anew, from the weights given. So does the network without invariance.
        data: the same data.
        augmentation: of the same kind; its parameters are replaced.
        likelihood: of the same kind.
        test: as in `fit`.
        optimiser: the function that makes the optimiser, if the run began with one.
        schedule: the function that makes the schedule, if the run began with one.
        callbacks: as in `fit`.
        progress: as in `fit`.
        device: as in `fit`.
    """
    callbacks = _checked_arguments(net, augmentation, likelihood, callbacks=callbacks, device=device)
    folder, way, ranks = Path(folder), choose(ProgressName, progress, "progress"), Ranks.here()
    description = read_description(folder)
    settings, own = description.settings, OwnOptimisation(optimiser, schedule)
    net.to(device)
    first_net, first_likelihood = deepcopy((net, likelihood)) if description.baseline else (net, likelihood)
    with flush_denormals(), _trainable_as_before(augmentation, likelihood), _held(folder, ranks, net):
        freeze_as_asked(net, settings, data)
        state = new_state(net, augmentation, likelihood or Categorical(), settings, data, own=own)
        settled_microbatch(state, settings, data, ranks)  # it is that of the run, whose memory may be missing here
        state.hyper = make_hyper_optimiser(state, settings, data, ranks)
        if (folder / CHECKPOINT).exists():
            checkpoint = read_checkpoint(folder, description.run, epochs=settings.epochs)
            if state.schedule is not None:
                state.schedule.repeat([record.loss for record in checkpoint.history], batches_per_epoch(settings, data))
            state.load_tensors(checkpoint.tensors, folder / CHECKPOINT)
            state.epoch, state.history = checkpoint.epoch, checkpoint.history
            if ranks.first and state.epoch < settings.epochs:
                discard_result(folder)  # of a run that was stopped, and goes on
        start_alike(state, settings, data, ranks)
        if state.hyper is not None:
            state.hyper.leave_to_first()
        writer = CheckpointWriter(folder, description.run, state.history) if ranks.first else None
        watchers = Watchers(callbacks, way, writer, description.task, description.baseline)
        run = train(state, data, settings, test=test, watchers=watchers, ranks=ranks)
        if ranks.first:
            write_result(folder, run, description.run)
        if not description.baseline:
            return run
        plain = PlainTraining(first_net, data, first_likelihood, test, progress=way, task=description.task, own=own)
        return _compared(run, plain, folder, description)


@dataclass(frozen=True)
class PlainTraining:
    """Trains the same network without invariance.

    Attributes:
        net: the network with its first weights.
        data: the training data.
        likelihood: of the targets, as it was before training.
        test: the test data, if there is any.
        progress: how progress is displayed.
        task: what network and data were made from, if that is known.
        own: makes the optimiser of the weights and its schedule, where the settings do not name them.
    """

    net: nn.Module
    data: Data
    likelihood: Likelihood | None
    test: Data | None
    _: KW_ONLY
    progress: ProgressName
    task: TaskDescription | None
    own: OwnOptimisation = NOT_OWN

    def __call__(self, settings: ResolvedSettings, folder: Path | None) -> Run:
        """Train with these settings, or go on with what is in the folder."""
        options: dict[str, Any] = {"likelihood": self.likelihood, "test": self.test, "progress": self.progress.value}
        options |= {"optimiser": self.own.optimiser, "schedule": self.own.schedule}
        if self.progress is not ProgressName.SILENT and Ranks.here().first:
            print("\nThe same network without invariance, to compare:")
        if folder is not None and (folder / CHECKPOINT).exists():
            return resume(folder, self.net, self.data, **options)
        given = Settings.from_dict(asdict(settings))
        return fit(self.net, self.data, folder=folder, task=self.task, settings=given, **options)


def _compared(run: Run, plain: PlainTraining, folder: Path | None, description: RunDescription) -> Run:
    """Return a finished run with what the same network is worth without invariance, and write that."""
    compared = with_plain_network(run, plain.data, plain.test, plain, folder)
    if folder is not None and Ranks.here().first:
        write_result(folder, compared, description.run)
    return compared


def _checked_arguments(
    net: nn.Module,
    augmentation: Augmentation | None,
    likelihood: Likelihood | None,
    *,
    callbacks: Iterable[Callback],
    device: str | torch.device | None,
) -> tuple[Callback, ...]:
    """Raise ArgumentError if one of the arguments cannot be used; return the callbacks."""
    check_network(net)
    check_examples_apart(net)  # before the network is run, which would change the statistics of a batch norm
    if augmentation is not None:
        check_augmentation(augmentation)
    if likelihood is not None:
        check_likelihood(likelihood)
    check_device(device)
    given = tuple(callbacks) if isinstance(callbacks, Iterable) else (None,)
    if not all(callable(callback) for callback in given):
        raise ArgumentError(f"callbacks must be a list of functions, but is {callbacks!r}. Write callbacks=[function].")
    return given


@contextmanager
def _held(folder: Path | None, ranks: Ranks, net: nn.Module) -> Iterator[None]:
    """Hold the lock of a run's folder in the first process; all end if it is in use."""
    with ExitStack() as stack:
        with ranks.together(next(net.parameters()).device):
            if folder is not None and ranks.first:
                stack.enter_context(locked(folder))
        yield


@contextmanager
def _trainable_as_before(*modules: nn.Module | None) -> Iterator[None]:
    """Restore, however a run ends, which parameters of these modules are trainable."""
    before = [(p, p.requires_grad) for module in modules if module is not None for p in module.parameters()]
    try:
        yield
    finally:
        for parameter, trainable in before:
            parameter.requires_grad_(trainable)
