"""What a sample of a data set holds: inputs, masks, boxes, key points, and everything else.

A sample is an input, or any nesting of tuples, lists and dictionaries that holds one. The rules are those of
torchvision's transforms: PIL images and the tensors of `torchvision.tv_tensors` say themselves what they are. A plain
tensor is an input only if nothing else in the sample is, and only the first one is. Everything else is passed through.
"""

import sys
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from PIL import Image
from torch import Tensor


class Kind(Enum):
    """What a leaf of a sample is."""

    INPUT = auto()
    """A tensor: one input, or a batch of inputs."""
    PICTURE = auto()
    """A PIL image."""
    VIDEO = auto()
    MASKS = auto()
    BOXES = auto()
    POINTS = auto()
    OTHER = auto()
    """Something that is not transformed, such as a label."""


_TV_KINDS = {
    "Image": Kind.INPUT,
    "Video": Kind.VIDEO,
    "Mask": Kind.MASKS,
    "BoundingBoxes": Kind.BOXES,
    "KeyPoints": Kind.POINTS,
}
"""The classes of `torchvision.tv_tensors` by name; key points came with version 0.23."""


def leaf_kinds(leaves: Sequence[Any]) -> list[Kind]:
    """Return what each leaf of a sample is."""
    kinds = [_kind(leaf) for leaf in leaves]
    says_itself = any(kind in (Kind.INPUT, Kind.VIDEO, Kind.PICTURE) for kind in kinds)
    plain = (i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and not is_tv_tensor(leaf))
    first = None if says_itself else next(plain, None)
    if first is not None:
        kinds[first] = Kind.INPUT
    return kinds


def _kind(leaf: Any) -> Kind:
    """Return what a leaf is by itself; a plain tensor says nothing."""
    if isinstance(leaf, Image.Image):
        return Kind.PICTURE
    if is_tv_tensor(leaf):
        return next((_TV_KINDS[cls.__name__] for cls in type(leaf).__mro__ if cls.__name__ in _TV_KINDS), Kind.OTHER)
    return Kind.OTHER


def is_tv_tensor(leaf: Any) -> bool:
    """Return whether a value is one of torchvision's tensors that say what they are."""
    tv_tensors = sys.modules.get("torchvision.tv_tensors")  # if it is not imported, nothing is
    return tv_tensors is not None and isinstance(leaf, tv_tensors.TVTensor)
