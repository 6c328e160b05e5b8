"""Changes of sets of points in space, as scans and molecules: rotations, translations, scale and jitter.

With all coefficients c = r eps of one view, each point p of a cloud becomes

    p' = (1 + c_scale) R(w) p + c_translation + c_jitter,p,    w = (c_x-rotation, c_y-rotation, c_z-rotation),

where R(w) turns about the axis w by the angle |w|, about the origin.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import pi
from typing import Any

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.choices import check_count
from lila.augment.base import Exporter, Shape
from lila.augment.export.plain import ranges_code
from lila.augment.lie import degrees
from lila.augment.named import NamedRanges, factor
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range
from lila.errors import ArgumentError, DataError

_AXES = "xyz"
_ROTATIONS = tuple(f"{axis}-rotation" for axis in _AXES)
_TRANSLATIONS = tuple(f"{axis}-translation" for axis in _AXES)
_SMALL = 1e-2  # squared angle below which power series are used; their error is then below 1e-14

CLOUDS: tuple[Range, ...] = (
    *(Range(name, limit=pi, closes=True, unit=degrees) for name in _ROTATIONS),
    *(Range(name) for name in _TRANSLATIONS),
    Range("scale", limit=1.0, unit=factor),
    Range("jitter"),
)
"""All ranges. Rotations are angles, the scale is c of a factor 1 + c, translations and jitter have the unit of the
coordinates."""


@suggests_arguments
class PointCloud(NamedRanges):
    """Changes of points in space, inputs of shape (points, 3): rotations, translations, scale and jitter.

    Args:
        generators: the names of the ranges to use, of `CLOUDS`; all but the jitter if None.
        init: the range from which each starts; 0 if None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
        points: the number of points of a cloud, needed for the jitter, which takes three noise values for each point.
    """

    unit = "radians, unit of the points, factor - 1"

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        points: int | None = None,
    ) -> None:
        chosen = [range_.name for range_ in CLOUDS if range_.name != "jitter"] if generators is None else generators
        if points is None and "jitter" in chosen:
            raise ArgumentError("PointCloud needs the number of points of a cloud for the jitter: points=100, say.")
        check_count("points", points, optional=True)
        super().__init__(CLOUDS, chosen, init, parameterisation, noises={"jitter": 3 * (points or 0)})
        self.points = points

    def arguments(self) -> dict[str, Any] | None:
        named = self.named_arguments()
        return None if named is None else named | {"points": self.points}

    def check_shape(self, shape: Shape) -> None:
        points = shape[0] if len(shape) == 2 else None
        if len(shape) != 2 or shape[1] != 3:
            raise DataError(f"PointCloud moves clouds of shape (points, 3), but its inputs have shape {shape}.")
        if "jitter" in self.names and points != self.points:
            raise DataError(f"PointCloud was made for clouds of {self.points} points, but these have {points}.")

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        change = self.changes(noise, x)
        zero = torch.zeros_like(noise[..., 0], dtype=x.dtype)
        views = x.unsqueeze(1).expand(-1, noise.shape[1], -1, -1)
        if any(name in change for name in (*_ROTATIONS, "scale")):
            R = turn(torch.stack([change.get(name, zero) for name in _ROTATIONS], dim=-1))
            A = (1 + change.get("scale", zero))[..., None, None] * R  # (b, s, 3, 3)
            # p' = A p for all views of a cloud at once: (b, n, 3) (b, 3, s 3)
            rows = A.flatten(1, 2).mT  # (b, 3, s 3)
            views = (x @ rows).unflatten(2, (-1, 3)).transpose(1, 2)
        if any(name in change for name in _TRANSLATIONS):
            views = views + torch.stack([change.get(name, zero) for name in _TRANSLATIONS], dim=-1).unsqueeze(2)
        if "jitter" in change:
            views = views + change["jitter"].unflatten(-1, (-1, 3))
        return views

    def exporters(self) -> Mapping[str, Exporter]:
        return {"torch": partial(ranges_code, "cloud-torch", dict(self.ranges))}


def turn(w: Tensor) -> Tensor:
    """Return the rotations about the axes w by the angles |w|: shape (..., 3) to (..., 3, 3).

    R = I + sin|w| / |w| K + (1 - cos|w|) / |w|^2 K^2, where K p is the cross product of w and p (Rodrigues).
    """
    x, y, z = w.unbind(-1)
    zero = torch.zeros_like(x)
    K = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).unflatten(-1, (3, 3))
    q = w.square().sum(-1)
    small = q < _SMALL
    angle = torch.where(small, 1.0, q).sqrt()  # a root of 0 has no gradient
    sine = torch.where(small, 1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72))), angle.sin() / angle)
    cosine = torch.where(small, (1 - q / 12 * (1 - q / 30 * (1 - q / 56))) / 2, (1 - angle.cos()) / angle.square())
    eye = torch.eye(3, dtype=w.dtype, device=w.device)
    return eye + sine[..., None, None] * K + cosine[..., None, None] * (K @ K)
