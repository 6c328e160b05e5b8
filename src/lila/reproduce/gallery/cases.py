"""The cases of the gallery, one function each."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import log, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment import Affine2d, Augmentation, Colour, Compose, PointCloud, TimeSeries
from lila.augment.colour import turn_hues
from lila.augment.lie import degrees, pixels
from lila.augment.noise import Draw
from lila.data.formats import Reading
from lila.data.read import read
from lila.integrations.kornia import Kornia, KorniaRange
from lila.reproduce.gallery.data import Labelled, digits, package, transform_once

_INK, _PAPER = torch.tensor([0.9, 0.3, 0.3]), torch.tensor([0.3, 0.3, 0.3])
_MNIST1D_LENGTHS = (12 + 60, 40)  # of a series of mnist1d before and after it is resampled


@dataclass(frozen=True)
class Folders:
    """Data that does not come with a package.

    Attributes:
        photographs: the name of CIFAR-10, or a folder of images per class.
        series: a folder with the .ts files of the UCR archive.
    """

    photographs: str = "cifar10"
    series: str = "."


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
        make: makes the problem from a seed and the folders of data that does not come with a package.
    """

    title: str
    text: str
    make: Callable[[int, Folders], Problem]


def _mlp(shape: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    inputs = int(torch.tensor(shape).prod())
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 100), nn.Tanh(), nn.Linear(100, outputs))


def _inked(x: Tensor) -> Tensor:
    """Return grey digits (n, h, w) as red ones on grey paper, (n, 3, h, w)."""
    return _PAPER[:, None, None] + (_INK - _PAPER)[:, None, None] * x.unsqueeze(1)


def recoloured_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, whose hue is then turned by any angle."""
    return _changed_digits(seed, {"hue": pi}, Colour())


def partly_recoloured_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, whose hue is then turned by up to 120 degrees."""
    return _changed_digits(seed, {"hue": 2 * pi / 3}, Colour())


def faded_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, raised to a random power between a quarter and four."""
    return _changed_digits(seed, {"gamma": log(4)}, Colour())


def dimmed_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, with random brightness, contrast and saturation."""
    return _changed_digits(seed, {"brightness": 0.5, "contrast": 0.5, "saturation": 0.8}, Colour())


def channels_of_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, whose channels are multiplied by random gains of their own."""
    truth = {"red": 0.9, "green": 0.9, "blue": 0.9}
    return _changed_digits(seed, truth, Colour(list(truth)))


def _changed_digits(seed: int, truth: Mapping[str, float], family: Colour) -> Problem:
    """Return digits in red ink whose colours are changed by known ranges."""
    first, second = ((_inked(x), y) for x, y in digits(seed, 500))
    train, test = transform_once((first, second), Colour(list(truth), init=list(truth.values())), seed)
    return Problem(train, test, _mlp((3, 8, 8), 10, seed), family, truth=truth, settings={"epochs": 60})


def inks(seed: int, folders: Folders) -> Problem:
    """Digits in one of five inks, which is the class."""
    parts = []
    for x, _ in digits(seed, 500):
        y = torch.arange(len(x)) % 5
        parts.append((torch.einsum("nij,njhw->nihw", turn_hues(2 * pi * y / 5), _inked(x)), y))
    return Problem(parts[0], parts[1], _mlp((3, 8, 8), 5, seed), Colour(), truth={}, settings={"epochs": 60})


def photographs(seed: int, folders: Folders) -> Problem:
    """Photographs of CIFAR-10, reduced to 8 x 8 pixels, whose hue is turned by any angle."""
    data = read(folders.photographs, reading=Reading(seed=seed))
    parts = []
    for part, images in enumerate((data.train, data.test)):
        chosen = Draw(seed, part).subset(len(images), min(1600, len(images)))
        parts.append((nn.functional.avg_pool2d(images.images(chosen), 4), images.labels[chosen]))
    train, test = transform_once((parts[0], parts[1]), Colour(["hue"], init=pi), seed)
    net = _mlp((3, 8, 8), len(data.classes), seed)
    return Problem(train, test, net, Colour(), truth={"hue": pi}, settings={"epochs": 100, "burn_in": 20})


def shifted_mnist1d(seed: int, folders: Folders) -> Problem:
    """Series of mnist1d's generator, shifted by up to 24 of its 72 steps and without its other changes."""
    generator = package("mnist1d.data", "mnist1d")
    chosen = generator.get_dataset_args()
    before, after = _MNIST1D_LENGTHS
    chosen.seed, chosen.num_samples, chosen.max_translation, chosen.padding = seed, 1000, 24, [60, 60]
    chosen.scale_coeff, chosen.shear_scale, chosen.corr_noise_scale = 0.0, 0.0, 0.05
    made = generator.make_dataset(chosen)
    # Its digits begin at the left end. All are rolled by as many steps, so that they keep clear of both ends.
    rolled = {name: torch.tensor(made[name], dtype=torch.float32).roll(10, 1).unsqueeze(1) for name in ("x", "x_test")}
    train, test = ((rolled[x], torch.tensor(made[y])) for x, y in (("x", "y"), ("x_test", "y_test")))
    half_range = (chosen.max_translation - 1) / 2 * after / before / (after / 2)
    net = _mlp((1, after), 10, seed)
    return Problem(train, test, net, TimeSeries(), truth={"shift": half_range}, settings={"epochs": 100})


def shifted_demand(seed: int, folders: Folders) -> Problem:
    """The daily demand for electricity in Italy, in summer or winter, shifted by up to 3 of 24 hours."""
    data = read(str(Path(folders.series) / "ItalyPowerDemand_TEST.ts"), reading=Reading(test_share=0.4, seed=seed))
    parts = [(images.images(torch.arange(len(images))), images.labels) for images in (data.train, data.test)]
    train, test = transform_once((parts[0], parts[1]), TimeSeries(["shift"], init=0.25), seed)
    net = _mlp((1, 24), 2, seed)
    return Problem(train, test, net, TimeSeries(), truth={"shift": 0.25}, settings={"epochs": 60})


def turned_clouds(seed: int, folders: Folders) -> Problem:
    """Sixteen points of a digit, turned about the vertical axis by any angle."""
    first, second = ((_landmarks(x), y) for x, y in digits(seed, 600))
    train, test = transform_once((first, second), PointCloud(["z-rotation"], init=pi), seed)
    net = _mlp((16, 3), 10, seed)
    return Problem(train, test, net, PointCloud(), truth={"z-rotation": pi}, settings={"epochs": 60})


def turned_by_kornia(seed: int, folders: Folders) -> Problem:
    """Digits turned by up to 90 degrees, learned with the rotation and the translation of kornia."""
    geometry = package("kornia.geometry.transform", "kornia")
    first, second = ((x.unsqueeze(1), y) for x, y in digits(seed, 800))
    train, test = transform_once((first, second), Affine2d(["rotation"], init=pi / 2), seed)
    angle = KorniaRange("rotation", argument="angle", scale=180 / pi, limit=pi, unit=degrees)
    shifts = [KorniaRange(f"{axis}-translation", argument="translation", scale=4.0, unit=pixels) for axis in "xy"]
    family = Compose(Kornia(geometry.rotate, [angle]), Kornia(geometry.translate, shifts))
    return Problem(train, test, _mlp((1, 8, 8), 10, seed), family, truth={"rotation": pi / 2}, settings={"epochs": 60})


def _landmarks(x: Tensor) -> Tensor:
    """Return the middle of the ink in each row and column of digits (n, 8, 8), as high as there is ink: (n, 16, 3)."""
    place = (torch.arange(8) - 3.5) / 4
    points = []
    for lines in (x, x.mT):  # rows, then columns
        ink = lines.sum(2)
        middle = (lines * place).sum(2) / ink.clamp_min(1e-3)
        across, down = (middle, place.expand_as(ink)) if lines is x else (place.expand_as(ink), middle)
        points.append(torch.stack([across, -down, ink / 4], dim=-1))
    return torch.cat(points, dim=1)


CASES: dict[str, Case] = {
    "recoloured-digits": Case(
        "Colour: recoloured digits",
        "500 of scikit-learn's digits in red ink on grey paper, whose hue is then turned by a random angle. The digit "
        "does not depend on its colour: the hue should be learned as a half turn to each side, which is all of it.",
        recoloured_digits,
    ),
    "partly-recoloured-digits": Case(
        "Colour: partly recoloured digits",
        "The same digits, whose hue is turned by up to ±120° only. The digit does not depend on the other hues either.",
        partly_recoloured_digits,
    ),
    "faded-digits": Case(
        "Colour: gamma",
        "The same digits, raised to a random power between a quarter and four.",
        faded_digits,
    ),
    "dimmed-digits": Case(
        "Colour: brightness, contrast and saturation",
        "The same digits, with random brightness, contrast and saturation. That the data varies in a way does not mean "
        "that a range is learned: here, all of them stay at zero.",
        dimmed_digits,
    ),
    "channels": Case(
        "Colour: gains of the channels",
        "The same digits, with each channel multiplied by a random factor between 0.1 and 1.9. Red ink on grey paper "
        "can be read in the red channel alone; in the others, a digit does not show.",
        channels_of_digits,
    ),
    "inks": Case(
        "Colour: where it is the class",
        "500 digits in five inks, 72° apart. The class is the ink: the hue should stay at zero.",
        inks,
    ),
    "photographs": Case(
        "Colour: recoloured photographs",
        "1,600 photographs of CIFAR-10, of aeroplanes, cars, frogs and horses, at 8 x 8 pixels. Their hue is turned by "
        "a random angle. Nothing else was changed, but photographs differ in contrast and saturation by themselves.",
        photographs,
    ),
    "mnist1d": Case(
        "Time series: shifted digits of mnist1d",
        "800 series of the generator of mnist1d. Of its changes only the shift is left on, by up to ±6.4 of 40 steps.",
        shifted_mnist1d,
    ),
    "demand": Case(
        "Time series: shifted days of ItalyPowerDemand",
        "618 days of the demand for electricity in Italy, an hour a step, from the UCR archive; the classes are summer "
        "and winter. Each day is shifted by up to ±3 hours.",
        shifted_demand,
    ),
    "kornia": Case(
        "kornia: turned digits",
        "800 digits, turned by up to ±90°. The families are the functions `rotate` and `translate` of kornia.",
        turned_by_kornia,
    ),
    "clouds": Case(
        "Points: digits turned about the vertical axis",
        "Sixteen points of each of 600 digits: the middle of the ink in each row and column, as high as there is ink. "
        "All are turned about the z axis by a random angle, and not moved otherwise.",
        turned_clouds,
    ),
}
"""All cases by name."""
