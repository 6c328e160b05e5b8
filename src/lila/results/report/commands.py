"""Commands that a report shows, quoted so that a shell takes names and paths for words and for nothing else."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from lila._util.shell import option, quoted
from lila.augment.base import Augmentation
from lila.data.images import SERIES_DIMENSIONS
from lila.training.description import NO_OWN_CODE, OwnCode, TaskDescription
from lila.training.settings import Settings

_LIBRARIES = ("torchvision", "torch", "kornia", "albumentations")  # the first that a family has code for is shown


@dataclass(frozen=True)
class NextStep:
    """Something to do with a run.

    Attributes:
        text: what it is for.
        command: a line for a shell, or lines of Python.
    """

    text: str
    command: str


def command(task: TaskDescription, settings: Settings, *, baseline: bool = True) -> str:
    """Return the command that trains a run again.

    Args:
        task: what the run was made from.
        settings: how it was trained.
        baseline: whether the same network was trained without invariance too.
    """
    recipe = asdict(task.recipe)
    del recipe["source"], recipe["seed"]  # given, and that of the settings
    recipe["subset"] = task.examples[0]  # as a preset would choose another number
    options: dict[str, Any] = {"model": task.model, "data_dir": task.data_dir}
    options |= recipe | {"augment": task.augmentation.family} | dict(task.augmentation.arguments)
    options |= asdict(settings)
    given = [option(name.replace("_", "-"), _text(value)) for name, value in options.items() if value is not None]
    if settings.procedure.invariant and not baseline:
        given.append("--no-baseline")
    return " ".join(["lila train", _path(task.recipe.source), *given])


def next_steps(
    folder: str, augmentation: Augmentation, task: TaskDescription | None, own: OwnCode = NO_OWN_CODE
) -> tuple[NextStep, ...]:
    """Return what can be done with a finished run.

    Args:
        folder: of the run, as the user named it.
        augmentation: with its learned ranges.
        task: what `lila train` made the run from; None for a run of Python.
        own: the code of the user's own that the user has named, which each command must name again.
    """
    names = {"model": own.model, "augment": own.augmentation}
    named = "".join(f" {option(name, value)}" for name, value in names.items() if value is not None)
    steps, run = [], _path(folder)
    if augmentation.ranges:
        library = next((name for name in _LIBRARIES if name in augmentation.exporters()), None)
        to, what = ("--json", "JSON") if library is None else (f"--to {library}", f"code for {library}")
        steps.append(NextStep(f"Use the learned augmentation elsewhere, as {what}", f"lila export {run} {to}{named}"))
    if task is not None and len(task.shape) != SERIES_DIMENSIONS:
        text = "Predict the classes of other images, with their probabilities"
        steps.append(NextStep(text, f"lila predict {run} IMAGES --out classes.csv{named}"))
    text = "Deploy the invariant network as a file that runs without lila"
    steps.append(NextStep(text, f"lila export {run} --to onnx --out network.onnx{named}"))
    return (*steps, NextStep("Use both in Python", _python(folder, augmentation)))


def _python(folder: str, augmentation: Augmentation) -> str:
    """Return lines of Python that open a run and use it."""
    lines = ["import lila", "", f"run = lila.load({folder!a})"]
    lines.append("outputs = run.model.eval()(inputs)  # the invariant network")
    if augmentation.ranges:
        lines.append("views = run.transform()(inputs)  # random draws of the learned augmentation")
    return "\n".join(lines)


def _path(path: str) -> str:
    """Return a path as one word that is not taken for an option."""
    return quoted(f"./{path}" if path.startswith("-") else path)


def _text(value: Any) -> str:
    """Return a value as an option takes it: (24, 32) as 24x32, a list with commas, a dictionary as JSON."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
