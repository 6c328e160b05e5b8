"""Runs that are made from a described task, as those of `lila train`: one way to train them, and one to open them."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from lila.augment import InputFormat
from lila.augment.registry import check_fits
from lila.data.task import Task
from lila.errors import CheckpointError
from lila.training.architecture import count_outputs
from lila.training.checkpoint import CHECKPOINT, RUN
from lila.training.description import NO_OWN_CODE, OwnCode, TaskDescription, read_description
from lila.training.fit import fit, resume
from lila.training.loading import load
from lila.training.lock import FolderInUseError, locked
from lila.training.run import Run
from lila.training.settings import Settings


def train_task(
    task: TaskDescription,
    data: Task,
    settings: Settings,
    folder: Path,
    *,
    own: OwnCode = NO_OWN_CODE,
    baseline: bool = False,
    **options: Any,
) -> Run:
    """Train the network of a task in a folder, or go on from the checkpoint that is there.

    Args:
        task: what the run is made from.
        data: the data of the task.
        settings: how to train, if there is no checkpoint yet; the folder says it otherwise.
        folder: of the run.
        own: the code of the user's own that the user has named.
        baseline: whether to train the same network without invariance too, if there is no checkpoint yet.
        **options: arguments of `fit` and `resume`: progress, device.
    """
    net, augmentation = task.network(settings.seed, own), task.augmentation.make(own)
    augmentation.adapt(InputFormat(task.shape, task.scaling.mean, task.scaling.std))
    check_fits(augmentation, task.shape)
    if (folder / CHECKPOINT).exists():
        return resume(folder, net, data.train, augmentation, test=data.test, **options)
    options |= {"test": data.test, "folder": folder, "task": task, "settings": settings, "baseline": baseline}
    return fit(net, data.train, augmentation, **options)


def open_run(folder: Path, own: OwnCode = NO_OWN_CODE) -> tuple[Run, TaskDescription | None]:
    """Open a finished run, and what it was made from if `lila train` made it.

    Args:
        folder: of the run. It may come from a stranger: nothing that it names is imported or called.
        own: the code of the user's own that the user has named.
    """
    description = read_description(folder)
    task, described = description.task, description.architecture.net
    if task is None:
        return load(folder), None
    if own.model is None and described is None and ":" not in task.model:
        raise CheckpointError(f"{folder / RUN}: architecture.net is missing, though {task.model[:40]!r} has one.")
    own_family = description.architecture.augmentation is None and ":" in task.augmentation.family
    augmentation = task.augmentation.make(own) if own_family else None
    if own.model is None and described is not None:
        outputs = count_outputs(described, task.shape, f"{folder / RUN}: architecture.net")
        if outputs != len(task.classes):
            raise CheckpointError(
                f"{folder / RUN}: task.classes has {len(task.classes)} names, but the network has {outputs} outputs."
            )
        run = load(folder, augmentation=augmentation)
    else:
        run = load(folder, net=task.network(description.settings.seed, own), augmentation=augmentation)
    if run.confusion is not None and len(run.confusion) != len(task.classes):
        raise CheckpointError(
            f"{folder}: result.json: confusion has {len(run.confusion)} rows, but task.classes in {RUN} has "
            f"{len(task.classes)} names."
        )
    return run, task


def discard_unfinished(folder: Path) -> None:
    """Delete the folder of a run that has no checkpoint to go on from, unless another process uses it."""
    with suppress(FolderInUseError), locked(folder):
        if not (folder / CHECKPOINT).exists():
            shutil.rmtree(folder, ignore_errors=True)
