"""The optimiser of the weights and its schedule: by the name of a class of PyTorch, or by a function of the user's own.

A run's folder holds names and numbers alone, and a name means an entry of the tables here. So a function that was given
to `fit` must be given again to `resume`. A schedule has no state in the checkpoint: its steps are repeated, which takes
no time, as they depend on nothing but their number and, for `ReduceLROnPlateau`, on the losses in the history.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn, optim
from torch.optim import lr_scheduler

from lila.errors import ArgumentError
from lila.training.choices import OptimiserName, ScheduleName
from lila.training.optimisers import optimised
from lila.training.settings import ResolvedSettings

MakeOptimiser = Callable[[list[nn.Parameter]], optim.Optimizer]
"""Makes an optimiser of these weights."""
MakeSchedule = Callable[[optim.Optimizer], lr_scheduler.LRScheduler]
"""Makes the schedule of an optimiser's learning rates."""

_OPTIMISERS: dict[OptimiserName, type[optim.Optimizer]] = {
    OptimiserName.ADADELTA: optim.Adadelta,
    OptimiserName.ADAFACTOR: optim.Adafactor,
    OptimiserName.ADAGRAD: optim.Adagrad,
    OptimiserName.ADAM: optim.Adam,
    OptimiserName.ADAMAX: optim.Adamax,
    OptimiserName.ADAMW: optim.AdamW,
    OptimiserName.ASGD: optim.ASGD,
    OptimiserName.NADAM: optim.NAdam,
    OptimiserName.RADAM: optim.RAdam,
    OptimiserName.RMSPROP: optim.RMSprop,
    OptimiserName.RPROP: optim.Rprop,
    OptimiserName.SGD: optim.SGD,
}
_SCHEDULES: dict[ScheduleName, type[lr_scheduler.LRScheduler]] = {
    ScheduleName.CONSTANTLR: lr_scheduler.ConstantLR,
    ScheduleName.COSINEANNEALINGLR: lr_scheduler.CosineAnnealingLR,
    ScheduleName.COSINEANNEALINGWARMRESTARTS: lr_scheduler.CosineAnnealingWarmRestarts,
    ScheduleName.CYCLICLR: lr_scheduler.CyclicLR,
    ScheduleName.EXPONENTIALLR: lr_scheduler.ExponentialLR,
    ScheduleName.LINEARLR: lr_scheduler.LinearLR,
    ScheduleName.MULTISTEPLR: lr_scheduler.MultiStepLR,
    ScheduleName.ONECYCLELR: lr_scheduler.OneCycleLR,
    ScheduleName.POLYNOMIALLR: lr_scheduler.PolynomialLR,
    ScheduleName.REDUCELRONPLATEAU: lr_scheduler.ReduceLROnPlateau,
    ScheduleName.STEPLR: lr_scheduler.StepLR,
}
_FUSED = (OptimiserName.ADAM, OptimiserName.ADAMW)  # that PyTorch computes in one kernel: the same step, in less time
_PER_BATCH = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)  # PyTorch's documentation steps these after each batch
_REFUSALS = (TypeError, ValueError, KeyError, ArithmeticError, RuntimeError)  # what PyTorch raises of bad options


@dataclass(frozen=True)
class OwnOptimisation:
    """Functions of the user's own that make the optimiser of the weights and its schedule.

    Attributes:
        optimiser: makes the optimiser; None if the settings name it.
        schedule: makes the schedule; None if the settings name it.
    """

    optimiser: MakeOptimiser | None = None
    schedule: MakeSchedule | None = None

    def check(self, settings: ResolvedSettings) -> None:
        """Raise ArgumentError unless functions are given where the settings have the name "own", and only there."""
        given = {"optimiser": self.optimiser, "schedule": self.schedule}
        for name, function in given.items():
            value = getattr(settings, name)
            if value == "own" and function is None:
                raise ArgumentError(
                    f"The {name} of this run is made by a function of your own, and a run does not hold code. Give the "
                    f"function again: {name}=..."
                )
            if value != "own" and function is not None:
                raise ArgumentError(f"The run has the {name} {value!r}, so that it takes no function that makes one.")


NOT_OWN = OwnOptimisation()


def named_or_own(optimiser: Any, schedule: Any) -> tuple[dict[str, str], OwnOptimisation]:
    """Return the settings that these arguments of `fit` give, and the functions among them.

    Args:
        optimiser: a name, a function that makes an optimiser, or None.
        schedule: a name, a function that makes a schedule, or None.
    """
    changes: dict[str, str] = {}
    for name, value in (("optimiser", optimiser), ("schedule", schedule)):
        if isinstance(value, str):
            changes[name] = value
        elif isinstance(value, optim.Optimizer | lr_scheduler.LRScheduler) or not (value is None or callable(value)):
            raise ArgumentError(
                f"The {name} must be a name or a function that makes one, as a run must be able to make it anew, not a "
                f"{type(value).__name__}. For example: optimiser=lambda weights: torch.optim.AdamW(weights, lr=0.01)."
            )
        elif value is not None:
            changes[name] = "own"
    functions = [value if callable(value) else None for value in (optimiser, schedule)]
    return changes, OwnOptimisation(*functions)


def make_optimiser(weights: list[nn.Parameter], settings: ResolvedSettings, own: OwnOptimisation) -> optim.Optimizer:
    """Make the optimiser of the weights.

    One that is named has no weight decay unless its options ask for it: the prior decays the weights already.
    """
    if own.optimiser is not None:
        return own.optimiser(weights)
    name = OptimiserName(settings.optimiser)
    options = {"lr": settings.lr} | ({} if name is OptimiserName.RPROP else {"weight_decay": 0.0})
    if name is OptimiserName.SGD:
        options["momentum"] = settings.momentum
    given = _as_arguments(settings.optimiser_options)
    on_known_devices = all(weight.device.type in ("cpu", "cuda") for weight in weights)
    if name in _FUSED and on_known_devices and not given.get("foreach"):  # a step is fused, or for each tensor
        options["fused"] = True
    try:
        return _OPTIMISERS[name](weights, **(options | given))
    except _REFUSALS as error:
        raise ArgumentError(f"The optimiser {settings.optimiser!r} does not take its options: {error}") from error


def check_optimiser(optimiser: Any, weights: list[nn.Parameter]) -> None:
    """Raise ArgumentError unless this is an optimiser of these weights that steps on the gradient of a batch."""
    if not isinstance(optimiser, optim.Optimizer):
        raise ArgumentError(f"The function must make a torch.optim.Optimizer, not a {type(optimiser).__name__}.")
    if isinstance(optimiser, optim.LBFGS | optim.SparseAdam):
        raise ArgumentError(
            f"{type(optimiser).__name__} does not take a step on the gradient of a batch. Use another optimiser."
        )
    if {id(p) for p in optimised(optimiser)} != {id(p) for p in weights}:
        raise ArgumentError("The optimiser must step all weights that the function was given, and no others.")


class Schedule:
    """A schedule of PyTorch, with the moments at which it takes a step.

    Args:
        scheduler: the schedule.
        per_batch: whether it takes a step after each batch; after each epoch otherwise.
    """

    def __init__(self, scheduler: lr_scheduler.LRScheduler, *, per_batch: bool) -> None:
        self._scheduler, self._per_batch = scheduler, per_batch

    def after_batch(self) -> None:
        """Take a step, if it is one that follows a batch."""
        if self._per_batch:
            self._step()

    def after_epoch(self, loss: float) -> None:
        """Take a step, if it is one that follows an epoch.

        Args:
            loss: the training loss of the epoch.
        """
        if not self._per_batch:
            self._step(loss)

    def repeat(self, losses: Sequence[float], batches: int) -> None:
        """Take the steps of the epochs that are done, in a run that goes on.

        Args:
            losses: the training loss of each epoch that is done.
            batches: the number of batches of an epoch.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler.step\(\)` before")
            for loss in losses:
                for _ in range(batches):
                    self.after_batch()
                self.after_epoch(loss)

    def _step(self, loss: float | None = None) -> None:
        try:
            if isinstance(self._scheduler, lr_scheduler.ReduceLROnPlateau) and loss is not None:
                self._scheduler.step(loss)
            else:
                self._scheduler.step()
        except _REFUSALS as error:
            raise ArgumentError(f"The schedule {type(self._scheduler).__name__} fails: {error}") from error


def make_schedule(
    optimiser: optim.Optimizer, settings: ResolvedSettings, own: OwnOptimisation, batches: int
) -> Schedule | None:
    """Make the schedule of the weights' learning rate; None for lila's own, which is a function of the progress.

    Args:
        optimiser: the optimiser of the weights.
        settings: name the schedule.
        own: makes it, if that is what the settings say.
        batches: the number of batches of an epoch.
    """
    if own.schedule is not None:
        scheduler = own.schedule(optimiser)
        if not isinstance(scheduler, lr_scheduler.LRScheduler) or scheduler.optimizer is not optimiser:
            raise ArgumentError(
                "The function must make a torch.optim.lr_scheduler.LRScheduler of the optimiser that it was given, but "
                f"it made a {type(scheduler).__name__}."
            )
    elif settings.schedule == ScheduleName.COSINE:
        return None
    else:
        scheduler = _named_schedule(optimiser, settings, batches)
    by_class = "batch" if isinstance(scheduler, _PER_BATCH) else "epoch"
    return Schedule(scheduler, per_batch=(settings.schedule_every or by_class) == "batch")


def _named_schedule(optimiser: optim.Optimizer, settings: ResolvedSettings, batches: int) -> lr_scheduler.LRScheduler:
    name, options = ScheduleName(settings.schedule), _as_arguments(settings.schedule_options)
    steps = settings.epochs * batches if settings.schedule_every != "epoch" else settings.epochs
    if name is ScheduleName.ONECYCLELR:
        lengths = {"total_steps", "epochs", "steps_per_epoch"} & options.keys()
        options = {"max_lr": settings.lr} | ({} if lengths else {"total_steps": steps}) | options
    if name is ScheduleName.COSINEANNEALINGLR:
        options = {"T_max": steps if settings.schedule_every == "batch" else settings.epochs} | options
    try:
        return _SCHEDULES[name](optimiser, **options)
    except _REFUSALS as error:
        raise ArgumentError(f"The schedule {settings.schedule!r} does not take its options: {error}") from error


def _as_arguments(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options as PyTorch takes them: lists, as JSON has them, are tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in (options or {}).items()}
