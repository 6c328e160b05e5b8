"""The work "images", of which most experiments consist: train a network on a data set of images by some method."""

import base64
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lila.augment import Augmentation, make_augmentation
from lila.data.examples import Examples
from lila.data.task import Recipe, Scaling, load_data
from lila.reproduce.engine.jobs import Job, Result, Surroundings
from lila.reproduce.engine.registry import register_work
from lila.training.description import AugmentationDescription, TaskDescription
from lila.training.history import to_columns
from lila.training.run import Run
from lila.training.settings import Settings
from lila.training.tasks import train_task

WORK = "images"
"""The name of this work in jobs."""

_WITHOUT_EFFECT = ("microbatch", "memory", "checkpoint_every")  # settings that change a result by rounding alone
_DEFAULTS = asdict(Settings())
_FAMILY = "affine"  # of the transformations that the experiments learn
_PICTURES = 4  # training images that are kept with the result


@dataclass(frozen=True)
class Training:
    """How a network is trained in an experiment.

    Attributes:
        data: name of the data set.
        model: name of the network.
        settings: how to train; their seed is also the seed of the data.
        subset: the number of training images, drawn at random; None for all.
        version: name of the transformed version of the data set.
        parameterisation: how eta encodes a range: "identity" or "inverse".
    """

    data: str
    model: str
    settings: Settings
    subset: int | None = None
    _: KW_ONLY
    version: str = "original"
    parameterisation: str = "identity"

    def changed(self, version: str | None = None, **changes: Any) -> "Training":
        """Return the same training with another version of the data, or with other settings."""
        return replace(self, version=version or self.version, settings=replace(self.settings, **changes))

    def job(self) -> Job:
        """Return the job that does this training.

        Settings at their defaults are left out, so a setting that is new does not make finished jobs be done again.
        """
        settings = {
            name: value
            for name, value in asdict(self.settings).items()
            if name not in _WITHOUT_EFFECT and value != _DEFAULTS[name]
        }
        if self.subset is not None and settings.get("gradient_examples", 0) >= self.subset:
            del settings["gradient_examples"]  # a gradient cannot use more images than there are
        recipe = Recipe(self.data, transform=self.version, subset=self.subset, seed=self.settings.seed)
        augmentation = {"parameterisation": self.parameterisation}
        arguments = {"recipe": asdict(recipe), "model": self.model, "augmentation": augmentation, "settings": settings}
        return Job(WORK, arguments)


def work(arguments: Mapping[str, Any], surroundings: Surroundings) -> Result:
    """Train a network, or continue an interrupted training, and return its result."""
    recipe, settings = Recipe(**arguments["recipe"]), Settings.from_dict(dict(arguments["settings"]))
    task = load_data(recipe, surroundings.data_dir)
    augmentation = AugmentationDescription(_FAMILY, arguments["augmentation"])
    described = TaskDescription.of(task, arguments["model"], augmentation, surroundings.data_dir)
    folder, device = surroundings.scratch, surroundings.device
    run = train_task(described, task, settings, folder, progress="silent", device=device)
    few = task.scaling.undo(next(Examples(task.train).batches(_PICTURES)).x)
    coded = base64.b64encode((255 * few).round().clamp(0, 255).byte().numpy().tobytes()).decode()
    return run_result(run) | {
        "examples": list(task.examples),
        "classes": list(task.classes),
        "scaling": asdict(task.scaling),
        "pictures": coded,
    }


def scaling(result: Result) -> Scaling:
    """Return how the pixels of a result's images were scaled."""
    return Scaling(*(tuple(result["scaling"][name]) for name in ("mean", "std")))


def pictures(result: Result) -> Tensor:
    """Return the few training images that a result keeps, in [0, 1]: shape (n, c, h, w)."""
    raw = bytearray(base64.b64decode(result["pictures"]))
    return torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, *result["shape"]) / 255


def learned_augmentation(result: Result) -> Augmentation:
    """Return the augmentation with the ranges that a job learned."""
    return make_augmentation(_FAMILY, init=list(result["ranges"].values()))


def run_result(run: Run) -> Result:
    """Return what a result keeps of a run; the history has one list per quantity, with an entry per epoch."""
    return {
        "shape": list(run.shape),
        "ranges": dict(run.ranges),
        "readable_ranges": dict(run.model.augmentation.readable_ranges(run.shape)),
        "evidence": {"value": run.evidence.value, **run.evidence.terms()},
        "test": run.test,
        "arithmetic": run.settings.arithmetic,
        "peak_bytes": max(record.peak_bytes for record in run.history),
        "history": to_columns(run.history),
    }


register_work(WORK, work)
