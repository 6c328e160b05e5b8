"""Real data for the gallery, transformed by known ranges."""

import importlib
from types import ModuleType

import torch
from torch import Tensor

from lila.augment import Augmentation
from lila.augment.noise import Draw, Stream
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
