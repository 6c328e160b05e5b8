"""How the networks of the experiments are trained, at both scales: the settings that several experiments share."""

from typing import Any

from lila.data.transformed import VersionName
from lila.experiments.experiment import Scale
from lila.experiments.images import Training
from lila.presets import PRESETS, PresetName
from lila.training.settings import Settings

VERSIONS = (
    VersionName.FULLY_ROTATED,
    VersionName.PARTIALLY_ROTATED,
    VersionName.TRANSLATED,
    VersionName.SCALED,
    VersionName.ORIGINAL,
)
"""In the order of the paper's tables."""

NETWORKS: dict[Scale, tuple[tuple[str, str], ...]] = {
    Scale.SMALL: (
        ("mnist", "mlp"),
        ("fashion-mnist", "mlp"),
        ("mnist", "cnn"),
        ("fashion-mnist", "cnn"),
        ("cifar10", "resnet-8-8"),
    ),
    Scale.PAPER: (
        ("mnist", "mlp"),
        ("fashion-mnist", "mlp"),
        ("mnist", "cnn"),
        ("fashion-mnist", "cnn"),
        ("cifar10", "resnet-8-8"),
        ("cifar10", "resnet-8-16"),
    ),
}
"""Data sets and networks of the paper's tables, by scale."""

_SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "mlp": (1000, {"epochs": 50, "batch_size": 100, "samples": 12, "eta_lr": 0.1, "burn_in": 5}),
    "cnn": (500, {"epochs": 40, "batch_size": 50, "samples": 6, "eta_lr": 0.15, "burn_in": 5}),
    "resnet-8-8": (400, {"epochs": 40, "batch_size": 50, "samples": 6, "eta_lr": 0.15, "burn_in": 5, "probes": 1}),
    "wrn-10-1": (400, {"epochs": 40, "batch_size": 50, "samples": 6, "eta_lr": 0.15, "burn_in": 5, "probes": 1}),
}
"""Training images and settings at the small scale, by network; other settings are the defaults."""


def plan(data: str, model: str, scale: Scale) -> Training:
    """How a network is trained on a data set at a scale, but for the version, the method and the seed."""
    if scale is Scale.PAPER:
        preset = PRESETS[PresetName.PAPER, data == "cifar10"]
        return Training(data, model, Settings(**preset.settings))
    subset, changes = _SMALL[model]
    return Training(data, model, Settings(**changes), subset)
