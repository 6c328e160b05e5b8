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

_STEEP: dict[str, Any] = {"burn_in": 5, "eta_lr": 0.16, "eta_lr_end": 0.04, "hyper_lr": 0.2}
_COLOUR: dict[str, Any] = _STEEP | {
    "epochs": 60,
    "batch_size": 50,
    "samples": 4,
    "optimiser": "sgd",
    "lr": 0.1,
    "lr_end": 1e-6,
    "hyper_every": 2,
    "passes": "sampled",
    "probes": 1,
}
_SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "mlp": (
        1000,
        _STEEP | {"epochs": 50, "batch_size": 100, "samples": 12, "eta_lr": 0.12, "eta_lr_end": 0.03, "hyper_lr": 0.1},
    ),
    "cnn": (500, _STEEP | {"epochs": 30, "batch_size": 50, "samples": 6}),
    "resnet-8-8": (500, _COLOUR),
    "wrn-10-1": (500, _COLOUR),
}
"""Training images and settings at the small scale, by network; others are the defaults. There are 25 to 45 hyper-steps
in place of 990, so their learning rates are such that eta can reach a half turn and the precisions their optimum."""


def plan(data: str, model: str, scale: Scale) -> Training:
    """How a network is trained on a data set at a scale, but for the version, the method and the seed."""
    if scale is Scale.PAPER:
        preset = PRESETS[PresetName.PAPER, data == "cifar10"]
        return Training(data, model, Settings(**preset.settings))
    subset, changes = _SMALL[model]
    return Training(data, model, Settings(**changes), subset)
