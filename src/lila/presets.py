"""Named sets of defaults for `lila train`, for grey and for colour images."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class PresetName(StrEnum):
    """The presets by name."""

    QUICK = "quick"
    PAPER = "paper"


@dataclass(frozen=True)
class Preset:
    """Defaults of a training run.

    Attributes:
        model: the network.
        settings: that differ from `Settings`.
        most: the most training images that are used unless a subset is asked for; None for all.
    """

    model: str
    settings: dict[str, Any]
    most: int | None = None


_QUICK: dict[str, Any] = {
    "epochs": 70,
    "batch_size": 100,
    "lr": 0.01,
    "eta_lr": 0.1,
    "hyper_lr": 0.1,
    "burn_in": 5,
}
_CIFAR: dict[str, Any] = {
    "epochs": 200,
    "batch_size": 250,
    "samples": 20,
    "optimiser": "sgd",
    "lr": 0.1,
    "lr_end": 1e-6,
    "eta_lr": 0.005,
    "eta_lr_end": 0.005,
    "subset": 5000,
    "passes": "exact",
}

PRESETS: dict[tuple[PresetName, bool], Preset] = {
    (PresetName.QUICK, False): Preset("mlp", _QUICK, most=2000),
    (PresetName.QUICK, True): Preset("cnn", _QUICK | {"samples": 20}, most=2000),
    (PresetName.PAPER, False): Preset("mlp", {"epochs": 1000, "eta_lr_end": 0.05, "passes": "exact"}),
    (PresetName.PAPER, True): Preset("resnet-8-8", _CIFAR),
}
"""By name, and whether the images have colour. Those of the paper are its settings for MNIST and for CIFAR-10."""
