"""Boxes and key points of `torchvision.tv_tensors` as points of the image, and back.

Coordinates of boxes are those of edges: an image of width w goes from 0 to w. A key point (x, y) is the centre of the
pixel in column x and row y, as torchvision's flips take it, so that it moves with its pixel.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lila.errors import DataError

Size = tuple[int, int]
"""Height and width of an image."""
Mover = Callable[[Tensor], Tensor]
"""Moves points (n, 2), in pixels from the centre of an image, to pixels from the centre of the transformed image."""


def move_boxes(boxes: Any, transform: Callable[[Tensor], Tensor], size: Size) -> Any:
    """Transform `torchvision.tv_tensors.BoundingBoxes`, clamped as they ask for.

    Args:
        boxes: the boxes.
        transform: the map of boxes (n, 4) = (left, top, right, bottom).
        size: the size of the transformed image.
    """
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional

    if boxes.format.value not in ("XYXY", "XYWH", "CXCYWH"):
        raise DataError(
            f"Boxes of the format {boxes.format.value} are turned, and what becomes of them under a shear is not a "
            "box. Convert them to XYXY first (torchvision.transforms.v2.ConvertBoundingBoxFormat)."
        )
    xyxy = functional.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    moved = tv_tensors.wrap(transform(xyxy.as_subclass(Tensor)), like=xyxy, canvas_size=size)
    clamped = functional.clamp_bounding_boxes(moved)
    return functional.convert_bounding_box_format(clamped, new_format=boxes.format)


def move_corners(xyxy: Tensor, before: Size, after: Size, mover: Mover) -> Tensor:
    """Return the smallest upright boxes around the moved corners of boxes (n, 4) = (left, top, right, bottom).

    Args:
        xyxy: the boxes, in pixels from the upper left corner of the image.
        before: the size of the image.
        after: the size of the transformed image.
        mover: the map of points.
    """
    corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)
    moved = _moved(corners, before, after, mover).reshape(-1, 4, 2)
    return torch.cat([moved.amin(1), moved.amax(1)], 1).to(xyxy.dtype)


def move_pixels(points: Tensor, before: Size, after: Size, mover: Mover) -> Tensor:
    """Return where pixels move; see `move_corners`.

    Args:
        points: (x, y) as numbers of columns and rows, shape (..., 2).
        before: the size of the image.
        after: the size of the transformed image.
        mover: the map of points.
    """
    centres = points.reshape(-1, 2).to(torch.float64) + 0.5
    return (_moved(centres, before, after, mover) - 0.5).reshape(points.shape).to(points.dtype)


def _moved(points: Tensor, before: Size, after: Size, mover: Mover) -> Tensor:
    """Move points that are given in pixels from the upper left corner."""
    points = points.to(torch.float64)
    return mover(points - _centre(points, before)) + _centre(points, after)


def _centre(points: Tensor, size: Size) -> Tensor:
    height, width = size
    return points.new_tensor([width / 2, height / 2])
