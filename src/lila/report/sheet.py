"""What a report tells about one run, whatever it was read from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from torch import Tensor

from lila.augment.base import Augmentation
from lila.data.task import Scaling, read_source
from lila.data.transformed import VersionName, true_ranges
from lila.errors import DataError
from lila.noise import Draw
from lila.runs import RunTask, open_run
from lila.training.run import Run, read_result
from lila.training.settings import Settings

_NOTICEABLE = 0.05  # share of a very large range from which on a transformation is worth a sentence
_IMAGES = 3


@dataclass(frozen=True)
class Sheet:
    """What there is to tell about a run.

    Attributes:
        title: what the run is called.
        augmentation: with its learned ranges.
        shape: of an input.
        history: one record per epoch.
        evidence: the value and the terms of the last estimate, in nats.
        scores: on the test data, if there was any.
        settings: by name.
        versions: of the software that made it.
        again: the command that makes it again, if that is known.
        truth: the ranges of the data, if they are known.
        images: a few inputs of the network, shape (n, c, h, w), if they are images.
        scaling: of their pixels.
    """

    title: str
    augmentation: Augmentation
    shape: tuple[int, ...]
    history: Sequence[Mapping[str, Any]] = field(repr=False)
    evidence: Mapping[str, float]
    scores: Mapping[str, float] | None
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    again: str | None = None
    truth: Mapping[str, float] | None = None
    images: Tensor | None = None
    scaling: Scaling | None = None

    @property
    def readable(self) -> Mapping[str, str]:
        """The learned ranges in a person's units."""
        return self.augmentation.readable_ranges(self.shape)

    def sentence(self) -> str:
        """What was learned, in a sentence."""
        method = self.settings["method"]
        if not self.readable:
            return f"This network ({method}) is not averaged over transformations, so it has no ranges."
        shares = self.augmentation.shares
        noticed = [name for name in sorted(shares, key=lambda name: -shares[name]) if shares[name] > _NOTICEABLE]
        if not noticed:
            return "The label was found to depend on everything: no transformation leaves it unchanged noticeably."
        told = _listed([f"{name} by {self.readable[name]}" for name in noticed])
        rest = "; nothing else does" if len(noticed) < len(shares) else ""
        return f"What leaves the label unchanged, as learned by {method}: {told}{rest}."

    def undone(self, images: Tensor) -> Tensor:
        """Inputs of the network as pictures in [0, 1]."""
        return (images if self.scaling is None else self.scaling.undo(images)).clamp(0, 1)


def sheet_of_folder(folder: str | Path) -> Sheet:
    """What there is to tell about a finished run in a folder."""
    folder = Path(folder)
    run, task = open_run(folder)
    truth, images, scaling = None, None, None
    if task is not None:
        scaling, images = task.scaling, _images(task)
        if task.recipe.transform != VersionName.ORIGINAL:
            truth = true_ranges(task.recipe.transform, task.shape)
    return Sheet(
        folder.name,
        run.model.augmentation,
        run.shape,
        run.history,
        {"value": run.evidence.value, **run.evidence.terms()},
        run.test,
        _described(run, task),
        read_result(folder).get("versions", {}),
        None if task is None else command(task, run.settings),
        truth,
        images,
        scaling,
    )


def command(task: RunTask, settings: Settings) -> str:
    """The command that trains a run again."""
    options: dict[str, Any] = {"--model": task.model}
    options |= {f"--{name.replace('_', '-')}": value for name, value in _changed(task.recipe).items()}
    augmentation = {name: value for name, value in task.augmentation.items() if value is not None}
    options |= {
        f"--{name}": ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in augmentation.items()
    }
    named = {"subset": "--gradient-subset"}
    changed = {name: value for name, value in asdict(settings).items() if value is not None}
    options |= {named.get(name, f"--{name.replace('_', '-')}"): value for name, value in changed.items()}
    return " ".join(["lila train", quote(task.recipe.source), *(f"{name} {value}" for name, value in options.items())])


def _changed(recipe: Any) -> dict[str, Any]:
    values = asdict(recipe)
    size = values.pop("size")
    if size is not None:
        values["size"] = f"{size[0]}x{size[1]}"
    del values["source"], values["seed"]
    return {name: value for name, value in values.items() if value is not None}


def _described(run: Run, task: RunTask | None) -> dict[str, Any]:
    made_from = {} if task is None else {"data": task.recipe.source, "version": task.recipe.transform}
    network = {} if task is None else {"network": task.model, "training images": task.examples[0]}
    return made_from | network | asdict(run.settings)


def _images(task: RunTask) -> Tensor | None:
    """A few images of the training data as they were before they were transformed, None if the data has gone."""
    try:
        train = read_source(task.recipe, task.folder()).train
    except DataError:
        return None
    return task.scaling(train.images(Draw(task.recipe.seed).subset(len(train), min(_IMAGES, len(train)))))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
