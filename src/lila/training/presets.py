"""Named sets of defaults for `lila train`, for grey and for colour images."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
    """

    model: str
    settings: dict[str, Any]


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
    (PresetName.DEFAULT, True): Preset("cnn", {}),
    (PresetName.PAPER, False): Preset("mlp", _MNIST),
    (PresetName.PAPER, True): Preset("resnet-8-8", _CIFAR),
}
"""Presets by name and by whether the images have colour. "paper" has the paper's settings for MNIST and CIFAR-10."""
