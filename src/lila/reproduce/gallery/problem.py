"""What a case of the gallery is: a text, and a problem that is made from a seed."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lila.augment import Augmentation
from lila.reproduce.gallery.data import Labelled


@dataclass(frozen=True)
class Folders:
    """Data that is read from files.

    Attributes:
        photographs: the name of CIFAR-10, or a folder of images per class.
        garments: the name of Fashion-MNIST, or other grey images of 28 x 28 pixels.
        series: a folder with the .ts files of the UCR archive, as NAME/NAME_TEST.ts; None for those inside of aeon.
    """

    photographs: str = "cifar10"
    garments: str = "fashion-mnist"
    series: Path | None = None


@dataclass(frozen=True)
class Problem:
    """What a run of the gallery is made from.

    Attributes:
        train: the training data.
        test: the test data.
        net: the network, with its first weights.
        augmentation: the family.
        truth: the range of each transformation in the data; ranges that are left out are 0.
        settings: settings of the run that are not the defaults.
    """

    train: Labelled
    test: Labelled
    net: nn.Module
    augmentation: Augmentation
    _: KW_ONLY
    truth: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A case of the gallery.

    Attributes:
        title: its heading.
        text: what the data is, and what should be found.
        make: makes the problem from a seed and the folders of data that is read from files.
    """

    title: str
    text: str
    make: Callable[[int, Folders], Problem]


def mlp(shape: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
    """Return a network of 100 hidden units, with random first weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 100), nn.Tanh(), nn.Linear(100, outputs))
