"""Cases of the gallery with points in space."""

from math import pi

import torch
from torch import Tensor

from lila.augment import PointCloud
from lila.augment.clouds import CLOUDS, turn
from lila.augment.noise import Draw, Stream
from lila.reproduce.gallery.data import Labelled, digits, package, transform_once
from lila.reproduce.gallery.problem import Folders, Problem, mlp

ISOMERS = ("2-butyne", "bicyclobutane", "butadiene", "cyclobutene", "methylenecyclopropane")
"""Molecules of four carbon atoms and six hydrogen atoms, by their names in ase."""

_THERMAL = 0.3  # how far each coordinate of an atom is from its place at most, in angstroms
_PER_CLASS = 40


def turned_clouds(seed: int, folders: Folders) -> Problem:
    """Sixteen points of a digit, turned about the vertical axis by any angle."""
    first, second = ((_landmarks(x), y) for x, y in digits(seed, 600))
    train, test = transform_once((first, second), PointCloud(["z-rotation"], init=pi), seed)
    net = mlp((16, 3), 10, seed)
    return Problem(train, test, net, PointCloud(), truth={"z-rotation": pi}, settings={"epochs": 60})


def molecules(seed: int, folders: Folders) -> Problem:
    """Five molecules of the same atoms, which stand or lie on a surface: each is two classes."""
    train, test = transform_once(
        (_on_surface(seed, 0), _on_surface(seed, 1)), PointCloud(["z-rotation"], init=pi), seed
    )
    shape = tuple(train[0].shape[1:])
    family = PointCloud([changed.name for changed in CLOUDS], points=shape[0])
    truth = {"z-rotation": pi, "jitter": _THERMAL}
    return Problem(train, test, mlp(shape, 2 * len(ISOMERS), seed), family, truth=truth, settings={"epochs": 60})


def _on_surface(seed: int, part: int) -> Labelled:
    """Return molecules whose long axis is the x axis (lying) or the z axis (standing); atoms are a little displaced."""
    known = package("ase.data.g2", "ase").data
    upright = turn(torch.tensor([0.0, -pi / 2, 0.0]))  # takes the x axis to the z axis
    classes = []
    for name in ISOMERS:
        lying = _along_axes(torch.tensor(known[name]["positions"], dtype=torch.float32))
        classes += [lying, lying @ upright.mT]
    x, y = torch.stack(classes).repeat(_PER_CLASS, 1, 1), torch.arange(len(classes)).repeat(_PER_CLASS)
    noise = Draw(seed, 2 + part).uniform(torch.arange(len(x)), tuple(x.shape[1:]), x.dtype, Stream.DATA)
    return x + _THERMAL * noise, y


def _along_axes(positions: Tensor) -> Tensor:
    """Return atoms (n, 3) about their centre, turned such that they spread most along x and least along z."""
    centred = positions - positions.mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    axes[2] *= torch.linalg.det(axes)  # a rotation, not a reflection
    return centred @ axes.mT


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
