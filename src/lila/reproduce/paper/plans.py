"""How the networks of the experiments are trained, at both scales: the settings that several experiments share."""

from dataclasses import replace
from typing import Any

from lila.data.transformed import VersionName
from lila.reproduce.engine.experiment import Scale
from lila.reproduce.engine.images import Training
from lila.training.methods import LearnedBy
from lila.training.presets import PRESETS, PresetName
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
"""Data sets and networks of the paper's tables, by scale; at the small one, for the time, the CNN on one data set."""

_AFTER_EPOCHS: dict[str, Any] = {"passes": "probed", "noise": "independent", "hyper_every": 1}
_STEEP: dict[str, Any] = {"burn_in": 5, "eta_lr": 0.16, "eta_lr_end": 0.04, "hyper_lr": 0.1}
_COLOUR: dict[str, Any] = _STEEP | {
    "epochs": 36,
    "batch_size": 25,
    "samples": 3,
    "burn_in": 14,
    "hyper_every": 2,
    "eta_lr_end": 0.08,
}
_SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "mlp": (
        1000,
        _STEEP | {"epochs": 50, "batch_size": 50, "samples": 12, "eta_lr": 0.12, "eta_lr_end": 0.03, "hyper_lr": 0.05},
    ),
    "cnn": (400, _STEEP | {"epochs": 60, "batch_size": 25, "samples": 6, "burn_in": 11, "hyper_every": 2}),
    "resnet-8-8": (1000, _COLOUR),
    "wrn-10-1": (1000, _COLOUR),
}
"""Training images and settings at the small scale, by network; others are the defaults, Adam for CIFAR-10 too (the
paper's SGD with a learning rate of 0.1 is for batches ten times as large, and learns little with these). There are 11
to 45 hyper-steps in place of 990, so their learning rates are such that eta can reach a quarter turn or more. Networks
with convolutions learn nothing in their first hundreds of steps, so that they take smaller batches and a longer
burn-in, and a hyper-step after every second epoch."""


_BY_LOSS = {"mlp": 0.05}
"""Learning rates of eta at the small scale for methods that learn it by the loss: they step it with every batch, so
that there are hundreds of steps. The paper's 0.05 for the MLP, and its 0.005 for all others: in the hundred steps that
convolutions take to learn anything, Augerino's reward drives the ranges off with 0.05, and with 0.02 too."""

_MOST_SEEDS = {"cnn": 2, "resnet-8-8": 1}
"""How many seeds a network gets at the small scale, for the time they take; the MLP as many as are asked for."""


def seeds_of(model: str, scale: Scale, seeds: int) -> range:
    """The seeds of a network, of so many asked for."""
    return range(seeds if scale is Scale.PAPER else min(seeds, _MOST_SEEDS.get(model, seeds)))


def plan(data: str, model: str, scale: Scale, method: str = "lila") -> Training:
    """How a network is trained on a data set at a scale by a method, but for the version and the seed."""
    colour = data == "cifar10"
    if scale is Scale.PAPER:
        preset = PRESETS[PresetName.PAPER, colour]
        return Training(data, model, Settings(**preset.settings, method=method))
    subset, changes = _SMALL[model]
    settings = Settings(**(_AFTER_EPOCHS | changes), method=method)
    if settings.procedure.eta is LearnedBy.LOSS:
        rate = _BY_LOSS.get(model, 0.005)
        settings = replace(settings, eta_lr=rate, eta_lr_end=rate)
    return Training(data, model, settings, subset)
