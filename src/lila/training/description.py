"""The description of a run: everything that it takes to open it or to go on with it, in one file of its folder."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor, nn

from lila._util.shell import option
from lila._util.suggestions import did_you_mean
from lila.augment import Augmentation, augmentation_names, make_augmentation
from lila.augment.noise import Draw
from lila.data.read import known_names
from lila.data.task import Recipe, Scaling, Task, read_source
from lila.data.transformed import VersionName, true_ranges
from lila.errors import ArgumentError, CheckpointError, DataError, ModelError
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.networks.registry import make_model
from lila.training.architecture import Architecture, check_plain, describe
from lila.training.checkpoint import RUN, read_json, write_json
from lila.training.schema import checked
from lila.training.settings import ResolvedSettings

FORMAT, VERSION = "lila-run", 1

AUGMENTATION_OPTIONS = ("generators", "padding", "init", "parameterisation")
"""The arguments of an augmentation that `lila train` has options for."""

_MOST_FAMILIES = 16
_MOST_SAMPLES = 100_000
_MOST_SIDE = 2**16  # pixels along a side of an image, or numbers along a dimension of another input
_MOST_VALUES = 2**28  # in an input


@dataclass(frozen=True)
class OwnCode:
    """Code of the user's own that the user has named; a run alone cannot make lila import or call any.

    Attributes:
        model: "package.module:function" of the network.
        augmentation: "package.module:Class" of the augmentation.
    """

    model: str | None = None
    augmentation: str | None = None


NO_OWN_CODE = OwnCode()


@dataclass(frozen=True)
class AugmentationDescription:
    """The augmentation that a run began with.

    Attributes:
        family: the name of its family, or "package.module:Class" for the user's own; several with commas between them.
        arguments: the arguments that make it; of several families, each takes those that its class has.
    """

    family: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.family.count(",") >= _MOST_FAMILIES:
            raise ArgumentError(
                f"At most {_MOST_FAMILIES} families of augmentations can be applied one after the other."
            )
        unknown = [name for name in self.family.split(",") if name not in augmentation_names()]
        if unknown and ":" not in self.family:  # with the user's own among them, they are looked for when they are made
            known = augmentation_names()
            raise ArgumentError(
                f"There is no family {unknown[0][:40]!r} of augmentations here; the registered ones are "
                f"{', '.join(known)}.{did_you_mean(unknown[0][:40], known)} If it is your own, import the module that "
                "registers it first."
            )
        for name, value in self.arguments.items():
            if name not in AUGMENTATION_OPTIONS:
                raise ArgumentError(
                    f"`lila train` has no option {name[:40]!r} for an augmentation; it has "
                    f"{', '.join(AUGMENTATION_OPTIONS)}."
                )
            check_plain(value, f"The argument {name[:40]} of {self.family}")

    def make(self, own: OwnCode = NO_OWN_CODE) -> Augmentation:
        """Make the augmentation, with the ranges that it began with.

        A run may come from a stranger, so a class that it names is not imported: only one that the user names is.

        Args:
            own: the code that the user has named.
        """
        if ":" in self.family and own.augmentation is None:
            raise ModelError(
                f"The augmentation of this run is of a class of your own, {self.family[:80]!r}, and lila imports no "
                "class because a run names it. If you trust that class, name it again: "
                f"{option('augment', self.family)}."
            )
        named = own.augmentation if ":" in self.family and own.augmentation is not None else self.family
        return make_augmentation(named, **self.arguments)


@dataclass(frozen=True, kw_only=True)
class TaskDescription:
    """What `lila train` made a run from.

    Attributes:
        recipe: how the data was made ready.
        data_dir: the data directory, if one was given.
        model: the name of the network, or "package.module:function" for the user's own.
        augmentation: the augmentation that the run began with.
        shape: (channels, height, width) of an image, or (channels, time) of a series.
        classes: the names of the classes.
        scaling: of the pixels.
        examples: the numbers of training and test images.
    """

    recipe: Recipe
    data_dir: str | None = None
    model: str
    augmentation: AugmentationDescription
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    scaling: Scaling
    examples: tuple[int, int]

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if not self.classes:
            raise ArgumentError("A task needs at least one class.")
        channels = self.shape[0]
        if len(self.scaling.mean) != channels or len(self.scaling.std) != channels or not all(self.scaling.std):
            raise ArgumentError(f"The scaling needs a mean and a positive deviation for each of {channels} channels.")
        if min(self.examples) < 0:
            raise ArgumentError(f"The numbers of images must not be negative, but are {self.examples}.")

    @classmethod
    def of(
        cls, task: Task, model: str, augmentation: AugmentationDescription, data_dir: Path | None = None
    ) -> "TaskDescription":
        """Describe what a run is made from.

        Args:
            task: the data.
            model: the name of the network.
            augmentation: the augmentation that the run begins with.
            data_dir: the data directory, if one was given.
        """
        return cls(
            recipe=task.recipe,
            data_dir=None if data_dir is None else str(data_dir.resolve()),
            model=model,
            augmentation=augmentation,
            shape=task.shape,
            classes=task.classes,
            scaling=task.scaling,
            examples=task.examples,
        )

    @property
    def data_folder(self) -> Path | None:
        """The data directory, if one was given."""
        return None if self.data_dir is None else Path(self.data_dir)

    def network(self, seed: int, own: OwnCode = NO_OWN_CODE) -> nn.Module:
        """Make the network with its first weights.

        A run may come from a stranger, so a function that it names is not called: only one that the user names is.

        Args:
            seed: of the weights.
            own: the code that the user has named.
        """
        if ":" in self.model and own.model is None:
            raise ModelError(
                f"The network of this run was made by a function of your own, {self.model!r}, and lila calls no "
                "function because a run names it. If you trust that function, name it again: "
                f"{option('model', self.model)}."
            )
        torch.manual_seed(seed)
        return make_model(own.model or self.model, self.shape, len(self.classes))

    def true_ranges(self) -> Mapping[str, float] | None:
        """Return the ranges by which the data was transformed; None if it was not."""
        version = self.recipe.transform
        return None if version == VersionName.ORIGINAL else true_ranges(version, self.shape)

    def some_images(self, count: int, *, named_paths: bool = False) -> Tensor:
        """Return a few training images as the network sees them, but not transformed; see `some_examples`."""
        return self.some_examples(count, named_paths=named_paths)[0]

    def some_examples(self, count: int, *, named_paths: bool = False) -> tuple[Tensor, list[str]]:
        """Return a few training images as the network sees them, but not transformed, and the names of their classes.

        Args:
            count: the number of images.
            named_paths: whether to read from a path that the run names. A run may come from a stranger, so that without
                it only data sets that are known by name are read, from the user's own data folder.

        Raises:
            DataError: the data is not there, or is in a path that only the run names.
        """
        folder = self.data_folder if named_paths else None
        if not named_paths and self.recipe.source not in known_names():
            raise DataError(
                f"The images are in a path that only the run names, {self.recipe.source!r}. If you trust the run, add "
                "--with-images."
            )
        train = read_source(self.recipe, folder).train
        chosen = Draw(self.recipe.seed).subset(len(train), min(count, len(train)))
        named = dict(enumerate(self.classes))  # the data may have changed since the run
        labels = [named.get(label, str(label)) for label in train.labels[chosen].tolist()]
        return self.scaling(train.images(chosen)), labels

    def check(self, task: Task) -> None:
        """Raise CheckpointError unless a task has the data of this one."""
        for name in ("shape", "classes", "examples"):
            before, now = getattr(self, name), getattr(task, name)
            if before != now:
                raise CheckpointError(
                    f"The data is not that of the run any more: its {name} was {before}, now it is {now}. Bring back "
                    f"the data of {self.recipe.source!r}, or start a new run."
                )


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """What a run is.

    Attributes:
        settings: how it is trained.
        architecture: its modules, as far as they can be described.
        task: what `lila train` made it from; None for a run of Python.
        baseline: whether the same network without invariance is trained too, after the run.
        run: the identity of the run, which all files of its folder repeat.
        format: the name of the format.
        version: the version of the format.
    """

    settings: ResolvedSettings
    architecture: Architecture
    task: TaskDescription | None = None
    baseline: bool = False
    run: str = field(default_factory=lambda: uuid4().hex)
    format: str = FORMAT
    version: int = VERSION

    def __post_init__(self) -> None:
        if (self.format, self.version) != (FORMAT, VERSION):
            raise ArgumentError(
                f"This version of lila reads the format {FORMAT} {VERSION}, not {self.format[:40]} {self.version}."
            )
        if re.fullmatch("[0-9a-f]{32}", self.run) is None:
            raise ArgumentError(f"The identity of a run has 32 hexadecimal digits, unlike {self.run[:40]!r}.")
        if self.settings.microbatch is None:
            raise ArgumentError("settings.microbatch is missing; it is chosen before a run begins.")
        if not 1 <= self.architecture.samples <= _MOST_SAMPLES:
            raise ArgumentError(f"samples must lie between 1 and {_MOST_SAMPLES}, not {self.architecture.samples}.")

    @classmethod
    def of(
        cls,
        settings: ResolvedSettings,
        model: InvariantModel,
        likelihood: Likelihood,
        task: TaskDescription | None = None,
        *,
        baseline: bool = False,
    ) -> "RunDescription":
        """Describe a new run."""
        net, augmentation, described = (describe(part) for part in (model.net, model.augmentation, likelihood))
        architecture = Architecture(net, augmentation, described, model.samples)
        return cls(settings=settings, architecture=architecture, task=task, baseline=baseline)

    def write(self, folder: Path) -> None:
        """Write the description into the folder of a run."""
        names = ["format", "version", *(entry.name for entry in fields(self))]  # those first
        values = asdict(self)
        write_json(folder / RUN, {name: values[name] for name in dict.fromkeys(names)})


def read_description(folder: Path) -> RunDescription:
    """Read the description of a run."""
    path = folder / RUN
    description: RunDescription = checked(RunDescription, read_json(path), f"{path}: ")
    return description


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise ArgumentError unless a shape can be that of an input."""
    values = 1
    for side in shape:
        values *= side
    if not shape or not all(1 <= side <= _MOST_SIDE for side in shape) or values > _MOST_VALUES:
        raise ArgumentError(
            f"The shape of an input has at least one side, each between 1 and {_MOST_SIDE}, and at most {_MOST_VALUES} "
            f"values, unlike {shape[:8]}."
        )


def read_task(folder: Path, description: RunDescription) -> TaskDescription:
    """Return what `lila train` made a run from."""
    if description.task is None:
        raise CheckpointError(
            f"The run in {folder} was not made by `lila train`, so what it was made from is not known. Use it in "
            "Python: lila.load, lila.resume."
        )
    return description.task
