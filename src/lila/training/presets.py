"""Named sets of defaults for `lila train`, for grey images, colour images and time series."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lila.augment.warp import Padding
from lila.data.images import SERIES_DIMENSIONS


class PresetName(StrEnum):
    """The presets by name."""

    DEFAULT = "default"
    PAPER = "paper"


@dataclass(frozen=True)
class Preset:
    """Defaults of a training run.

    Attributes:
        model: the network.
        settings: those that differ from the defaults of `Settings`.
        augmentation: the family of augmentations.
        surroundings: what lies outside the image for families that ask ("padding"); None leaves it to the family.
    """

    model: str
    settings: dict[str, Any]
    augmentation: str = "affine"
    surroundings: Padding | None = None


_PAPER: dict[str, Any] = {"passes": "exact", "noise": "independent", "hyper_lr": 0.05, "burn_in": 10, "hyper_every": 1}
_MNIST: dict[str, Any] = _PAPER | {
    "epochs": 1000,
    "batch_size": 1000,
    "samples": 31,
    "eta_lr": 0.05,
    "eta_lr_end": 0.05,
}
_CIFAR: dict[str, Any] = _PAPER | {
    "epochs": 200,
    "batch_size": 250,
    "samples": 20,
    "optimiser": "sgd",
    "lr": 0.1,
    "lr_end": 1e-6,
    "eta_lr": 0.005,
    "eta_lr_end": 0.005,
    "gradient_examples": 5000,
}

PRESETS: dict[tuple[PresetName, bool], Preset] = {
    (PresetName.DEFAULT, False): Preset("mlp", {}),
    (PresetName.DEFAULT, True): Preset("cnn", {}, surroundings=Padding.REFLECTION),
    (PresetName.PAPER, False): Preset("mlp", _MNIST),
    (PresetName.PAPER, True): Preset("resnet-8-8", _CIFAR),
}
"""Presets by name and by whether the images have colour. "paper" has the paper's settings for MNIST and CIFAR-10.

By default photographs are continued by their mirror image. With nothing around them a large shift empties most views,
which makes the network simple and raises the evidence of few photographs (docs/reliability.md, "Few images")."""

_SERIES = {PresetName.DEFAULT: Preset("cnn1d", {}, "series"), PresetName.PAPER: Preset("cnn1d", _MNIST, "series")}


def find_preset(name: PresetName, shape: tuple[int, ...]) -> Preset:
    """Return the preset for inputs of a shape: images (channels, height, width), or series (channels, time)."""
    return _SERIES[name] if len(shape) == SERIES_DIMENSIONS else PRESETS[name, shape[0] == 3]
