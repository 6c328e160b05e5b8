"""The work that most experiments consist of: train a network on a version of a data set of images by some method."""

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lila.augment.families import Affine2d
from lila.data.examples import Examples
from lila.data.task import Recipe, Scaling, load_data
from lila.networks.registry import make_model
from lila.reproduce.engine.jobs import Job, Result, Surroundings
from lila.training.checkpoint import CHECKPOINT
from lila.training.fit import fit, resume
from lila.training.run import Run
from lila.training.settings import Settings

_NOT_OF_THE_RESULT = ("microbatch", "memory", "checkpoint_every")  # but for rounding
_PICTURES = 4  # training images that are kept with the result


@dataclass(frozen=True)
class Training:
    """How a network is trained in an experiment.

    Attributes:
        data: name of the data set.
        model: name of the network.
        settings: how to train; its seed is also that of the data.
        subset: so many random training images; all if None.
        version: of the data set.
        parameterisation: how a range is written as eta.
    """

    data: str
    model: str
    settings: Settings
    subset: int | None = None
    version: str = "original"
    parameterisation: str = "identity"

    def but(self, version: str | None = None, **changes: Any) -> "Training":
        """The same with another version of the data, or other settings."""
        return replace(self, version=version or self.version, settings=replace(self.settings, **changes))

    def job(self) -> Job:
        """The job that trains it."""
        settings = {name: value for name, value in asdict(self.settings).items() if name not in _NOT_OF_THE_RESULT}
        if self.subset is not None and (settings["subset"] or 0) >= self.subset:
            settings["subset"] = None  # of a gradient, which cannot use more images than there are
        recipe = Recipe(self.data, transform=self.version, subset=self.subset, seed=self.settings.seed)
        augmentation = {"parameterisation": self.parameterisation}
        arguments = {"recipe": asdict(recipe), "model": self.model, "augmentation": augmentation, "settings": settings}
        return Job("images", arguments)


def work(arguments: Mapping[str, Any], surroundings: Surroundings) -> Result:
    """Train, or go on with training, and tell what came of it."""
    recipe, settings = Recipe(**arguments["recipe"]), Settings.from_dict(dict(arguments["settings"]))
    task = load_data(recipe, surroundings.data_dir)
    torch.manual_seed(settings.seed)
    net = make_model(arguments["model"], task.shape, len(task.classes))
    augmentation = Affine2d(**arguments["augmentation"])
    folder, device = surroundings.scratch, surroundings.device
    if (folder / CHECKPOINT).exists():
        run = resume(folder, net, task.train, augmentation, test=task.test, progress="silent", device=device)
    else:
        run = fit(
            net,
            task.train,
            augmentation,
            test=task.test,
            folder=folder,
            progress="silent",
            device=device,
            settings=settings,
        )
    few = task.scaling.undo(next(Examples(task.train).batches(_PICTURES)).x)
    coded = base64.b64encode((255 * few).round().clamp(0, 255).byte().numpy().tobytes()).decode()
    return told(run) | {
        "examples": list(task.examples),
        "classes": list(task.classes),
        "scaling": asdict(task.scaling),
        "pictures": coded,
    }


def scaling(result: Result) -> Scaling:
    """Of the pixels of a job's images."""
    return Scaling(*(tuple(result["scaling"][name]) for name in ("mean", "std")))


def pictures(result: Result) -> Tensor:
    """A few of the training images of a job, in [0, 1]: shape (n, c, h, w)."""
    raw = bytearray(base64.b64decode(result["pictures"]))
    return torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, *result["shape"]) / 255


def told(run: Run) -> Result:
    """What there is to tell about a run, its history by columns."""
    first = run.history[0]
    names = ("value", "log_likelihood", "weight_penalty", "occam_factor")
    return {
        "shape": list(run.shape),
        "ranges": dict(run.ranges),
        "readable_ranges": dict(run.model.augmentation.readable_ranges(run.shape)),
        "evidence": {"value": run.evidence.value, **run.evidence.terms()},
        "test": run.test,
        "peak_bytes": max(record["peak_bytes"] for record in run.history),
        "history": {
            "epoch": [record["epoch"] for record in run.history],
            "loss": [record["loss"] for record in run.history],
            "ranges": {name: [record["ranges"][name] for record in run.history] for name in first["ranges"]},
            "evidence": {name: [record.get("evidence", {}).get(name) for record in run.history] for name in names},
            "seconds": {name: [record["seconds"][name] for record in run.history] for name in first["seconds"]},
        },
    }
