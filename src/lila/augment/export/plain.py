"""Families whose only export is a class of PyTorch with the learned ranges in it."""

from collections.abc import Mapping
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
