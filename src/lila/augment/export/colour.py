"""Learned changes of colour as code.

`torch` is the learned distribution itself. torchvision and kornia draw the same factors, but clip pixels to [0, 1],
turn the hue in HSV, and order the changes at random. torchvision has no random gamma, and neither has channel gains.
"""

from collections.abc import Mapping
from math import exp, pi

from lila.augment.base import InputFormat
from lila.augment.export.code import filled, rounded
from lila.errors import ArgumentError

COLOUR_LIBRARIES = ("torch", "torchvision", "kornia")
"""The libraries for which changes of colour can be written; each has a template in `templates/`."""

_FACTORS = ("brightness", "contrast", "saturation")
_ONLY_TORCH = {"torchvision": ("gamma", "red", "green", "blue"), "kornia": ("red", "green", "blue")}
_NEGLIGIBLE = 0.005  # a range that another library lacks may be left out below it


def colour_code(library: str, ranges: Mapping[str, float], inputs: InputFormat) -> str:
    """Write a change of colour as Python source.

    Args:
        library: one of `COLOUR_LIBRARIES`.
        ranges: the learned ranges by name.
        inputs: the images that are transformed.
    """
    lost = [name for name in _ONLY_TORCH.get(library, ()) if ranges.get(name, 0) > _NEGLIGIBLE]
    if lost:
        raise ArgumentError(
            f"{library} has no random {' or '.join(lost)}, which this augmentation learned. Export to torch."
        )
    factors = {name: rounded((1 - ranges.get(name, 0.0), 1 + ranges.get(name, 0.0))) for name in _FACTORS}
    gamma = ranges.get("gamma", 0.0)
    return filled(
        f"colour-{library}",
        **factors,
        gamma=rounded((exp(-gamma), exp(gamma))),
        hue=rounded(min(ranges.get("hue", 0.0) / (2 * pi), 0.5)),
        ranges={name: float(f"{value:.6g}") for name, value in ranges.items()},
        mean=rounded(inputs.mean),
        std=rounded(inputs.std),
    )
