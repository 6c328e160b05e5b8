"""The learned augmentation as code that others can paste, and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from importlib.resources import files
from math import sqrt
from string import Template
from typing import Any

import torch

from lila._util.choices import choose
from lila.augment.families import AFFINE_2D
from lila.augment.warp import Padding
from lila.errors import ArgumentError
from lila.results.export.parameters import Affine

_DIGITS = 4
_CV2_BORDERS = {
    Padding.ZEROS: "BORDER_CONSTANT",
    Padding.BORDER: "BORDER_REPLICATE",
    Padding.REFLECTION: "BORDER_REFLECT",
}


class TargetName(StrEnum):
    """What to export to; each has a template in `templates/`."""

    TORCH = "torch"
    TORCHVISION = "torchvision"
    KORNIA = "kornia"
    ALBUMENTATIONS = "albumentations"


def export_code(target: str | TargetName, affine: Affine, ranges: Mapping[str, float]) -> str:
    """Python source that defines `transform`.

    Args:
        target: the library.
        affine: the parameters in the terms of other libraries.
        ranges: the learned ranges, by generator.
    """
    name = choose(TargetName, target, "target")
    if name is TargetName.TORCHVISION and affine.padding is not Padding.ZEROS:
        raise ArgumentError(
            f"torchvision's RandomAffine cannot continue an image by {affine.padding.value}. Export to kornia, "
            "albumentations or torch."
        )
    template = files("lila.results.export").joinpath("templates", f"{name.value}.txt").read_text(encoding="utf-8")
    return Template(template).substitute(_values(affine, ranges))


def export_json(affine: Affine, ranges: Mapping[str, float]) -> dict[str, Any]:
    """The distribution itself, and its parameters in the terms of other libraries."""
    values = _values(affine, ranges)
    return {
        "distribution": "x'(p) = x(exp(sum_i eps_i range_i G_i)^-1 p), eps_i independent and uniform on [-1, 1]",
        "coordinates": "origin at the image's centre, x right, y down, unit half the longer side",
        "generators": _generators(ranges),
        "ranges": dict(ranges),
        "affine": asdict(affine),
        "torchvision": {name: values[name] for name in ("degrees", "translate", "scale", "shear")},
        "kornia": {name: values[name] for name in ("degrees", "translate", "shear")} | {"scale": values["scales"]},
        "albumentations": {
            "rotate": _interval(affine.degrees),
            "translate_percent": {"x": _interval(affine.translate[0]), "y": _interval(affine.translate[1])},
            "scale": {"x": values["scale_x"], "y": values["scale_y"]},
            "shear": {"x": _interval(affine.shear), "y": (0.0, 0.0)},
        },
    }


def _generators(ranges: Mapping[str, float]) -> dict[str, list[list[float]]]:
    known = {generator.name: generator.matrix for generator in AFFINE_2D}
    return {name: torch.as_tensor(known[name], dtype=torch.float32).tolist() for name in ranges}


def _values(affine: Affine, ranges: Mapping[str, float]) -> dict[str, Any]:
    """What the templates ask for."""
    generators = _generators(ranges)
    # One factor for both axes, where there can only be one: the mean of the logarithms.
    scale = tuple(sqrt(x * y) for x, y in zip(affine.scale_x, affine.scale_y, strict=True))
    return {
        "ranges": [float(f"{value:.6g}") for value in ranges.values()],
        "generators": "".join(f"    {matrix},  # {name}\n" for name, matrix in generators.items()),
        "degrees": _rounded(affine.degrees),
        "translate": _rounded(affine.translate),
        "translate_x": _rounded(affine.translate[0]),
        "translate_y": _rounded(affine.translate[1]),
        "scale": _rounded(scale),
        "scales": _rounded(affine.scale_x + affine.scale_y),
        "scale_x": _rounded(affine.scale_x),
        "scale_y": _rounded(affine.scale_y),
        "shear": _rounded(affine.shear),
        "padding": affine.padding.value,
        "border": _CV2_BORDERS[affine.padding],
        "mean": _rounded(affine.mean),
        "std": _rounded(affine.std),
    }


def _rounded(value: float | tuple[float, ...]) -> float | tuple[float, ...]:
    return tuple(round(part, _DIGITS) for part in value) if isinstance(value, tuple) else round(value, _DIGITS)


def _interval(value: float) -> tuple[float, float]:
    return -round(value, _DIGITS), round(value, _DIGITS)
