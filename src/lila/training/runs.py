"""What a run of the command line was made from, written into its folder, so that other commands find it again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment import Augmentation, make_augmentation
from lila.augment.noise import Draw
from lila.data.task import Recipe, Scaling, Task, read_source
from lila.data.transformed import VersionName, true_ranges
from lila.networks.registry import make_model
from lila.training.checkpoint import MODEL, CheckpointError, read_json, write_json
from lila.training.run import Run, load

TASK = "task.json"


@dataclass(frozen=True)
class RunTask:
    """From what a run was made.

    Attributes:
        recipe: of the data.
        data_dir: the data directory, if one was given.
        model: name of the network.
        augmentation: the arguments of the augmentation.
        seed: of the network's first weights.
        shape: (channels, height, width) of an image.
        classes: names of the classes.
        scaling: of the pixels.
        examples: numbers of training and test images.
        family: the name of the augmentation's family.
    """

    recipe: Recipe
    data_dir: str | None
    model: str
    augmentation: dict[str, Any]
    seed: int
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    scaling: Scaling
    examples: tuple[int, int]
    family: str = "affine"

    def folder(self) -> Path | None:
        """The data directory, if one was given."""
        return None if self.data_dir is None else Path(self.data_dir)

    def network(self) -> nn.Module:
        """The network with its first weights."""
        torch.manual_seed(self.seed)
        return make_model(self.model, self.shape, len(self.classes))

    def made_augmentation(self) -> Augmentation:
        """Return the augmentation as it is before training."""
        made = make_augmentation(self.family, **self.augmentation)
        made.check_shape(self.shape)
        return made

    def truth(self) -> Mapping[str, float] | None:
        """The ranges by which the data was transformed; None if it was not."""
        version = self.recipe.transform
        return None if version == VersionName.ORIGINAL else true_ranges(version, self.shape)

    def some_images(self, count: int) -> Tensor:
        """A few training images as the network sees them, but not transformed.

        Raises:
            DataError: the data is not there any more.
        """
        train = read_source(self.recipe, self.folder()).train
        return self.scaling(train.images(Draw(self.recipe.seed).subset(len(train), min(count, len(train)))))

    def check(self, task: Task) -> None:
        """Raise CheckpointError unless a task is of the same data."""
        for name in ("shape", "classes", "examples"):
            before, now = getattr(self, name), getattr(task, name)
            if before != now:
                raise CheckpointError(
                    f"The data is not that of the run any more: its {name} was {before}, now it is {now}. Bring back "
                    f"the data of {self.recipe.source!r}, or start a new run."
                )

    def write(self, folder: Path) -> None:
        """Write it into the folder of a run."""
        write_json(folder / TASK, asdict(self))


def read_task(folder: Path) -> RunTask:
    """Read what a run was made from."""
    if (folder / "settings.json").exists() and not (folder / TASK).exists():
        raise CheckpointError(
            f"The run in {folder} was not made by `lila train`, so what it was made from is not known. Use it in "
            "Python: lila.load, lila.resume."
        )
    values = read_json(folder / TASK)
    try:
        recipe = values.pop("recipe")
        size = None if recipe["size"] is None else tuple(recipe["size"])
        scaling = Scaling(*(tuple(values["scaling"][name]) for name in ("mean", "std")))
        tuples = {name: tuple(values[name]) for name in ("shape", "classes", "examples")}
        return RunTask(**(values | tuples | {"recipe": Recipe(**(recipe | {"size": size})), "scaling": scaling}))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / TASK} does not describe a run: {error!r}") from error


def open_run(folder: Path) -> tuple[Run, RunTask | None]:
    """A finished run, and what it was made from if `lila train` made it."""
    if not (folder / TASK).exists():
        return load(folder), None
    task = read_task(folder)
    description = read_json(folder / MODEL)
    net = None if description.get("net") is not None else task.network()
    augmentation = description.get("augmentation")
    is_own = augmentation is None or ("family" in augmentation and ":" in task.family)  # its module must be imported
    return load(folder, net, task.made_augmentation() if is_own else None), task
