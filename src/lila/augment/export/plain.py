"""Families that are exported as a class of PyTorch alone, with the learned numbers in it, and sequences of them."""

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

from lila.augment.base import InputFormat
from lila.augment.export.code import filled, rounded


def ranges_code(template: str, ranges: Mapping[str, float], inputs: InputFormat, **values: Any) -> str:
    """Write an augmentation as Python source that uses PyTorch alone.

    Args:
        template: the name of the file in `templates/`.
        ranges: the learned ranges by name.
        inputs: the inputs that are transformed.
        **values: what else the template shows.
    """
    shown = {name: float(f"{value:.6g}") for name, value in ranges.items()}
    return filled(template, ranges=shown, mean=rounded(inputs.mean), std=rounded(inputs.std), **values)


def choice_code(probabilities: Sequence[float], maps: Mapping[str, str], inputs: InputFormat) -> str:
    """Write a random choice of maps of images as Python source that uses PyTorch alone.

    Args:
        probabilities: of the image as it is, and of each map.
        maps: the expression of each map of a tensor named `image`, by name.
        inputs: the images that are transformed.
    """
    lines = "".join(f"    lambda image: {expression},  # {name}\n" for name, expression in maps.items())
    return filled("discrete-torch", probabilities=[float(f"{p:.6g}") for p in probabilities], maps=lines)


def sequence_code(sources: Sequence[str]) -> str:
    """Write a sequence of transformations as Python source, given the source for PyTorch of each."""
    parts = "".join(
        f"\ndef part_{i}():\n{indent(source.rstrip(), ' ' * 4)}\n    return transform\n\n"
        for i, source in enumerate(sources, start=1)
    )
    return filled("sequence-torch", parts=parts, calls=", ".join(f"part_{i}()" for i in range(1, len(sources) + 1)))
