"""Cases of the gallery with images that are turned or flipped."""

from math import pi

from torch import nn

from lila.augment import Affine2d, Compose, HorizontalFlip, VerticalFlip
from lila.augment.lie import degrees, pixels
from lila.integrations.kornia import Kornia, KorniaRange
from lila.reproduce.gallery.data import digits, package, some_images, transform_once
from lila.reproduce.gallery.problem import Folders, Problem, mlp

_GARMENTS = 1000


def turned_by_kornia(seed: int, folders: Folders) -> Problem:
    """Digits turned by up to 90 degrees, learned with the rotation and the translation of kornia."""
    geometry = package("kornia.geometry.transform", "kornia")
    first, second = ((x.unsqueeze(1), y) for x, y in digits(seed, 800))
    train, test = transform_once((first, second), Affine2d(["rotation"], init=pi / 2), seed)
    angle = KorniaRange("rotation", argument="angle", scale=180 / pi, limit=pi, unit=degrees)
    shifts = [KorniaRange(f"{axis}-translation", argument="translation", scale=4.0, unit=pixels) for axis in "xy"]
    family = Compose(Kornia(geometry.rotate, [angle]), Kornia(geometry.translate, shifts))
    return Problem(train, test, mlp((1, 8, 8), 10, seed), family, truth={"rotation": pi / 2}, settings={"epochs": 60})


def flipped_garments(seed: int, folders: Folders) -> Problem:
    """Garments of Fashion-MNIST, half of them mirrored left to right."""
    return _garments(seed, folders, 0.5)


def garments_as_they_are(seed: int, folders: Folders) -> Problem:
    """Garments of Fashion-MNIST, none of them mirrored: shoes point to the left."""
    return _garments(seed, folders, 0.0)


def _garments(seed: int, folders: Folders, probability: float) -> Problem:
    (first, second), classes = some_images(folders.garments, _GARMENTS, seed)
    small = [(nn.functional.avg_pool2d(x, 2), y) for x, y in (first, second)]
    train, test = transform_once((small[0], small[1]), HorizontalFlip(init=probability), seed)
    truth = {"horizontal flip": probability} if probability else {}
    family, net = Compose(HorizontalFlip(), VerticalFlip()), mlp((1, 14, 14), len(classes), seed)
    return Problem(train, test, net, family, truth=truth, settings={"epochs": 60})
