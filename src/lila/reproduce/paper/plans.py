"""How the networks are trained at each scale: data sets, networks and settings that several experiments share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lila.data.transformed import VersionName
from lila.reproduce.engine.experiment import Cell, Scale
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Result
from lila.training.methods import LearnedBy
from lila.training.presets import PRESETS, PresetName
from lila.training.settings import Settings

DATA_VERSIONS = (
    VersionName.FULLY_ROTATED,
    VersionName.PARTIALLY_ROTATED,
    VersionName.TRANSLATED,
    VersionName.SCALED,
    VersionName.ORIGINAL,
)
"""The versions of the data sets, in the order of the paper's tables."""

NETWORKS: dict[Scale, tuple[tuple[str, str], ...]] = {
    Scale.SMALL: (
        ("mnist", "mlp"),
        ("fashion-mnist", "mlp"),
        ("fashion-mnist", "cnn"),
        ("cifar10", "resnet-8-8"),
    ),
    Scale.FULL: (
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
"""Data sets and networks of the paper's tables by scale; to save time, the first two have one data set for the CNN."""

_SMALL: dict[str, tuple[int, dict[str, Any]]] = {
    "mlp": (1000, {"weight_samples": 8, "arithmetic": "auto"}),
    "cnn": (1000, {"epochs": 60, "weight_samples": 4}),
    "resnet-8-8": (1000, {"epochs": 50, "samples": 8}),
    "wrn-10-1": (1000, {"epochs": 50, "samples": 8}),
}
"""The number of training images and the settings at the small scale, by network.

The other settings are the defaults: evidence steps while the weights are trained, by Adam for CIFAR-10 too, as the
paper's SGD with a learning rate of 0.1 is for batches five times as large. Few images need more views in steps of the
weights than the default of two (`docs/speed.md`)."""

_FULL: dict[tuple[str, str], tuple[int | None, dict[str, Any]]] = {
    ("mnist", "mlp"): (None, {"epochs": 30, "batch_size": 250}),
    ("fashion-mnist", "mlp"): (
        None,
        {"epochs": 60, "batch_size": 100, "weight_samples": 12, "hyper_every": 10, "arithmetic": "auto"},
    ),
    ("fashion-mnist", "cnn"): (None, {"epochs": 20, "batch_size": 250}),
    ("cifar10", "resnet-8-8"): (
        None,
        {"epochs": 40, "batch_size": 50, "weight_samples": 1, "burn_in": 8, "hyper_every": 20},
    ),
}
"""The number of training images, None for all, and the settings at the full scale, by data set and network.

The other settings are the defaults: evidence steps while the weights are trained, by Adam for CIFAR-10 too. The MLP
needs more steps for garments than for digits, and more views in them: with batches of 250 and two views it ends at 84.1
percent on partially rotated ones, where the paper has 86.7. One view in steps of the weights leaves time for more
epochs of the ResNet."""

_BY_LOSS = {(Scale.SMALL, "mlp"): 0.02, (Scale.FULL, "mlp"): 0.05}
"""Learning rates of eta at these two scales for methods that learn it by the loss; networks not named have 0.005.

These methods take a step of eta with every batch, so a run has thousands of them. The MLP has the paper's 0.05 if it
sees all images; with 1,000 shifted digits Augerino's reward then makes the ranges diverge. For networks with
convolutions, which learn nothing in their first hundreds of steps, even 0.02 does so. They have 0.005, which the paper
uses for CIFAR-10."""

_MOST_SEEDS = {"cnn": 2, "resnet-8-8": 1}
"""The most seeds of a network at these two scales, to save time; other networks get as many as the user asks for."""


_VERSIONS: dict[tuple[Scale, str], tuple[VersionName, ...]] = {
    (Scale.FULL, "cnn"): (VersionName.PARTIALLY_ROTATED, VersionName.TRANSLATED),
    (Scale.FULL, "resnet-8-8"): DATA_VERSIONS[:-1],
}
"""The versions of the data for networks that do not get all of them, to save time."""


def versions_of(model: str, scale: Scale) -> tuple[VersionName, ...]:
    """Return the versions of the data on which a network is trained."""
    return _VERSIONS.get((scale, model), DATA_VERSIONS)


def versions_in(cells: Iterable[Cell], data: str, model: str) -> list[VersionName]:
    """Return the versions that have results of a network, in the paper's order; cells name network and version."""
    found = {str(part) for cell in cells if cell[:2] == (data, model) for part in cell[2:]}
    return [version for version in DATA_VERSIONS if version.value in found]


def seeds_of(model: str, scale: Scale, seeds: int) -> range:
    """Return the seeds of a network, if the user asks for a number of them."""
    return range(seeds if scale is Scale.PAPER else min(seeds, _MOST_SEEDS.get(model, seeds)))


def networks_of(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """Return the data sets and networks of cells that begin with these, each pair once."""
    return list(dict.fromkeys((str(cell[0]), str(cell[1])) for cell in cells))


def seeds_by_network(cells: Mapping[Cell, Sequence[Result]]) -> list[str]:
    """Return a remark on the number of seeds of each network if these differ; cells begin with data set and network."""
    networks: dict[int, list[str]] = {}
    for data, model in networks_of(cells):
        count = len(next(runs for cell, runs in cells.items() if cell[:2] == (data, model)))
        networks.setdefault(count, []).append(f"{model} on {data}")
    if len(networks) == 1:
        return []
    counts = [f"{count} for {', '.join(names)}" for count, names in networks.items()]
    return [f"Seeds: {'; '.join(counts)}."]


def plan(data: str, model: str, scale: Scale, method: str = "lila") -> Training:
    """Return how a method trains a network on the original version of a data set, with seed 0."""
    colour = data == "cifar10"
    if scale is Scale.PAPER:
        preset = PRESETS[PresetName.PAPER, colour]
        return Training(data, model, Settings(**preset.settings, method=method))
    subset, changes = _FULL[data, model] if scale is Scale.FULL else _SMALL[model]
    settings = Settings(**changes, method=method)
    if settings.procedure.eta is LearnedBy.LOSS:
        rate = _BY_LOSS.get((scale, model), 0.005)
        settings = replace(settings, eta_lr=rate, eta_lr_end=rate)
    return Training(data, model, settings, subset)
