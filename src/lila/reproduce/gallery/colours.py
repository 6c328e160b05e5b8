"""Cases of the gallery with changed colours."""

from collections.abc import Mapping
from math import log, pi

import torch
from torch import Tensor, nn

from lila.augment import Colour
from lila.augment.colour import turn_hues
from lila.reproduce.gallery.data import Labelled, digits, some_images, transform_once
from lila.reproduce.gallery.problem import Folders, Problem, mlp

_INK, _PAPER = torch.tensor([0.9, 0.3, 0.3]), torch.tensor([0.3, 0.3, 0.3])
_DIMMED = {"brightness": 0.5, "contrast": 0.5, "saturation": 0.8}
_PHOTOGRAPHED = ("airplane", "automobile", "frog", "horse")


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
    return _changed_digits(seed, _DIMMED, Colour())


def channels_of_digits(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, whose channels are multiplied by random gains of their own."""
    truth = {"red": 0.9, "green": 0.9, "blue": 0.9}
    return _changed_digits(seed, truth, Colour(list(truth)))


def _changed_digits(seed: int, truth: Mapping[str, float], family: Colour) -> Problem:
    """Return digits in red ink whose colours are changed by known ranges."""
    first, second = ((_inked(x), y) for x, y in digits(seed, 500))
    train, test = transform_once((first, second), Colour(list(truth), init=list(truth.values())), seed)
    return Problem(train, test, mlp((3, 8, 8), 10, seed), family, truth=truth, settings={"epochs": 60})


def inks(seed: int, folders: Folders) -> Problem:
    """Digits in one of five inks, which is the class."""
    parts = []
    for x, _ in digits(seed, 500):
        y = torch.arange(len(x)) % 5
        parts.append((torch.einsum("nij,njhw->nihw", turn_hues(2 * pi * y / 5), _inked(x)), y))
    return Problem(parts[0], parts[1], mlp((3, 8, 8), 5, seed), Colour(), truth={}, settings={"epochs": 60})


def digits_in_two_inks(seed: int, folders: Folders) -> Problem:
    """The digits 0 to 4 in red or in cyan ink, ten classes, whose hue is then turned by up to 60 degrees."""
    truth, parts = {"hue": pi / 3}, []
    for x, y in digits(seed, 900):
        few = y < 5
        ink = torch.arange(int(few.sum())) % 2
        parts.append((torch.einsum("nij,njhw->nihw", turn_hues(pi * ink), _inked(x[few])), 2 * y[few] + ink))
    train, test = transform_once((parts[0], parts[1]), Colour(list(truth), init=list(truth.values())), seed)
    return Problem(train, test, mlp((3, 8, 8), 10, seed), Colour(), truth=truth, settings={"epochs": 60})


def digits_and_another_ink(seed: int, folders: Folders) -> Problem:
    """Digits in red ink, whose hue is turned by up to 120 degrees, and an eleventh class: any digit in cyan ink."""
    truth, others = {"hue": 2 * pi / 3}, {"hue": pi / 9}
    changed = []
    for cyan, ranges in ((False, truth), (True, others)):
        parts = [_sixth(part, cyan) for part in digits(seed, 600)]
        changed.append(transform_once((parts[0], parts[1]), Colour(list(ranges), init=list(ranges.values())), seed))
    train, test = (
        (torch.cat([one[0], two[0]]), torch.cat([one[1], two[1]])) for one, two in zip(*changed, strict=True)
    )
    return Problem(train, test, mlp((3, 8, 8), 11, seed), Colour(), truth=truth, settings={"epochs": 60})


def _sixth(data: Labelled, cyan: bool) -> Labelled:
    """Return every sixth digit in cyan ink as a class of its own, or all others in red ink."""
    x, y = data
    chosen = (torch.arange(len(x)) % 6 == 5) == cyan
    inked = _inked(x[chosen])
    return (turn_hues(torch.tensor(pi)) @ inked.flatten(2)).view_as(inked) if cyan else inked, (
        torch.full_like(y[chosen], 10) if cyan else y[chosen]
    )


def photographs(seed: int, folders: Folders) -> Problem:
    """Photographs of CIFAR-10, whose hue is turned by any angle."""
    return _changed_photographs(seed, folders, {"hue": pi})


def dimmed_photographs(seed: int, folders: Folders) -> Problem:
    """Photographs of CIFAR-10, with random brightness, contrast and saturation."""
    return _changed_photographs(seed, folders, _DIMMED)


def _changed_photographs(seed: int, folders: Folders, truth: Mapping[str, float]) -> Problem:
    """Return photographs, reduced to 8 x 8 pixels, whose colours are changed by known ranges."""
    (first, second), classes = some_images(folders.photographs, 1600, seed, _PHOTOGRAPHED)
    small = [(nn.functional.avg_pool2d(x, 4), y) for x, y in (first, second)]
    train, test = transform_once((small[0], small[1]), Colour(list(truth), init=list(truth.values())), seed)
    net = mlp((3, 8, 8), len(classes), seed)
    return Problem(train, test, net, Colour(), truth=truth, settings={"epochs": 100, "burn_in": 20})
