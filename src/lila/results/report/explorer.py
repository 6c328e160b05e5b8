"""What the script of a page needs to transform images or time series by itself, as sliders move.

The script (`templates/transform.js`) repeats lila's own transformations for the families in `_STEPS`. It is given the
inputs, the learned distribution as a list of steps, and a slider for each direction of the noise. Inputs of other
families move through pictures that were drawn in advance: see `lila.results.report.pictures`.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.augment import (
    Affine2d,
    Augmentation,
    Colour,
    Compose,
    HorizontalFlip,
    LieImages,
    QuarterTurns,
    TimeSeries,
    VerticalFlip,
)
from lila.augment.discrete import DiscreteFamily
from lila.augment.ranges import RangeFamily, signed_end
from lila.results.report import pictures
from lila.results.report.sheet import Sheet

POSITIONS = 41
"""Positions of a slider, from -1 to 1; the middle one is 0."""
_MOST_PIXELS = 130_000  # of all images together, and values of all series
_COLOURS = (1, 3)  # channels of grey and of coloured images
_DIGITS = 5  # of a value of a series

Step = dict[str, Any]
"""One transformation: its kind, the position of its first noise value, and what was learned."""


def explorer(sheet: Sheet) -> dict[str, Any] | None:
    """Return what the script is given; None if there are no inputs to show, or if it does not know the family."""
    if sheet.images is None or not sheet.readable or (not sheet.of_series and sheet.shape[0] not in _COLOURS):
        return None
    steps, sliders, choices = [], [], []
    for part, start in _parts(sheet.augmentation):
        make = _STEPS.get(type(part))  # exactly: a class that derives from it may do something else
        if make is None or (isinstance(part, Colour) and not _scaled_alike(part, sheet)):
            return None
        steps.append(make(part) | {"start": start, "count": part.noise_dim})
        sliders += _sliders(part, start, sheet)
        choices += _choices(part, start)
    shown = sheet.images[: _affordable(sheet)]
    return {
        "steps": steps,
        "sliders": sorted(sliders, key=lambda slider: -slider.pop("share")),
        "choices": choices,
        "noise": sheet.augmentation.noise_dim,
        "centred": not any(getattr(part, "offset", False) for part, _ in _parts(sheet.augmentation)),
        "labels": list((sheet.labels or ())[: len(shown)]),
        **(_series(sheet, shown) if sheet.of_series else _images(sheet, shown)),
    }


def _parts(augmentation: Augmentation, start: int = 0) -> Iterator[tuple[Augmentation, int]]:
    """Yield the augmentations that are applied one after the other, and where the noise of each begins."""
    if not isinstance(augmentation, Compose):
        yield augmentation, start
        return
    for part in augmentation.parts:
        inner = cast("Augmentation", part)
        yield from _parts(inner, start)
        start += inner.noise_dim


def _affine(part: LieImages) -> Step:
    return {
        "kind": "affine",
        "generators": part.generators.tolist(),
        "padding": part.padding.value,
        **_distribution(part),
    }


def _colour(part: Colour) -> Step:
    return {"kind": "colour", "names": list(part.names), **_distribution(part)}


def _time(part: TimeSeries) -> Step:
    return {"kind": "time", "names": list(part.names), "padding": part.padding.value, **_distribution(part)}


def _outcomes(kind: str) -> Callable[[DiscreteFamily], Step]:
    def step(part: DiscreteFamily) -> Step:
        return {"kind": kind, "ends": part.probabilities().detach().cumsum(0)[:-1].tolist()}

    return step


_STEPS: dict[type[Augmentation], Callable[[Any], Step]] = {
    Affine2d: _affine,
    LieImages: _affine,
    Colour: _colour,
    TimeSeries: _time,
    HorizontalFlip: _outcomes("horizontal-flip"),
    VerticalFlip: _outcomes("vertical-flip"),
    QuarterTurns: _outcomes("quarter-turns"),
}
"""The step of each family that the script knows."""


def _distribution(part: RangeFamily) -> Step:
    """Return the coefficients c = centre + mixing eps."""
    return {"mixing": part.mixing().detach().tolist(), "centre": list(part.centres.values())}


def _scaled_alike(part: Colour, sheet: Sheet) -> bool:
    """Return whether a family scales pixels back as the report does, which shows them in [0, 1]."""
    scaling = sheet.scaling
    return scaling is not None and (part.mean, part.std) == (tuple(scaling.mean), tuple(scaling.std))


def _sliders(part: Augmentation, start: int, sheet: Sheet) -> list[dict[str, Any]]:
    """Return a slider for each direction in which an augmentation can move an input."""
    sliders, shares, k = [], part.shares, sheet.augmentation.noise_dim
    for label, own in part.directions(sheet.shape).items():
        direction = F.pad(own.to(torch.float32), (start, k - start - len(own)))
        name = next((name for name in part.ranges if _is_unit(own, part.noise_index(name))), None)
        sliders.append(
            {
                "label": label if name is None else name,
                "range": "" if name is None else part.readable_ranges(sheet.shape)[name],
                "direction": [round(value, 6) for value in direction.tolist()],
                "texts": None if name is None else _texts(part, name, sheet),
                "share": max(shares.values()) if name is None else shares[name],
            }
        )
    return sliders


def _is_unit(direction: Tensor, index: int | None) -> bool:
    """Return whether a direction is that of a single noise value."""
    return index is not None and bool(torch.equal(direction, torch.eye(len(direction)).to(direction)[index]))


def _texts(part: Augmentation, name: str, sheet: Sheet) -> list[str]:
    """Return what each position of a slider stands for, in the unit of the range."""
    centre = part.centres[name] if isinstance(part, RangeFamily) else 0.0
    ends = [centre + part.ranges[name] * (2 * i / (POSITIONS - 1) - 1) for i in range(POSITIONS)]
    return [signed_end(part.readable(name, abs(end), sheet.shape), negative=end < 0) for end in ends]


def _choices(part: Augmentation, start: int) -> list[dict[str, Any]]:
    """Return the outcomes that an augmentation can choose from, with their probabilities."""
    if not isinstance(part, DiscreteFamily):
        return []
    options = [f"{name} ({part.ranges[name]:.1%})" for name in part.names]
    return [{"label": " or ".join(part.names), "start": start, "options": ["as it is", *options]}]


def _affordable(sheet: Sheet) -> int:
    """Return how many inputs may be shown, so that the file stays small."""
    assert sheet.images is not None
    size = math.prod(sheet.shape if sheet.of_series else pictures.shown_size(sheet.shape))
    return max(1, min(len(sheet.images), _MOST_PIXELS // (4 * size if sheet.of_series else size)))


def _images(sheet: Sheet, images: Tensor) -> dict[str, Any]:
    """Return images as one picture, one below the other, and the colour that lies outside them."""
    pixels = pictures.reduced(sheet.undone(images.float()))
    height, width = pixels.shape[-2:]
    outside = sheet.undone(torch.zeros_like(images[:1, :, :1, :1]).float()).flatten()
    return {
        "kind": "images",
        "count": len(images),
        "height": height,
        "width": width,
        "channels": pixels.shape[1],
        "outside": outside.tolist(),
        "reduced": (height, width) != tuple(sheet.shape[-2:]),
        "picture": pictures.data_url(pixels),
    }


def _series(sheet: Sheet, series: Tensor) -> dict[str, Any]:
    """Return time series as the network sees them, and how they are scaled back."""
    channels = series.shape[1]
    mean, std = ((0.0,) * channels, (1.0,) * channels)
    if sheet.scaling is not None:
        mean, std = tuple(sheet.scaling.mean), tuple(sheet.scaling.std)
    values = [float(f"{value:.{_DIGITS}g}") for value in series.flatten().tolist()]
    return {
        "kind": "series",
        "count": len(series),
        "channels": channels,
        "width": series.shape[2],
        "values": values,
        "mean": mean,
        "std": std,
    }
