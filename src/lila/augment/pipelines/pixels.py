"""Pixels of integers and PIL images as floating-point tensors, and back."""

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lila.errors import DataError

_MODES = ("L", "RGB", "RGBA")
_INTEGERS = (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32)


def transformed_pixels(image: Tensor, transform: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a transformation of floating-point images to an image of any type, and return an image of that type.

    Integers are divided by the largest of their type for the transformation, so that those of bytes lie in [0, 1];
    afterwards they are multiplied by it, rounded and clamped. float16 and bfloat16 are computed in float32.

    Args:
        image: one image or a batch.
        transform: maps float32 or float64 tensors to tensors of the same type.
    """
    dtype = image.dtype
    if dtype in (torch.float32, torch.float64):
        return transform(image)
    if dtype.is_floating_point:
        return transform(image.float()).to(dtype)
    if dtype not in _INTEGERS:
        raise DataError(
            f"An image cannot have the type {dtype}. Give floating-point numbers, or integers of at most 32 bits; wrap "
            "a mask as torchvision.tv_tensors.Mask."
        )
    limits = torch.iinfo(dtype)
    moved = transform(image.to(torch.float32 if limits.bits == 8 else torch.float64) / limits.max)
    return (moved * limits.max).round().clamp(limits.min, limits.max).to(dtype)


def transformed_picture(picture: Image.Image, transform: Callable[[Tensor], Tensor]) -> Image.Image:
    """Apply a transformation of tensors (c, h, w) to a PIL image, and return a PIL image of the same mode."""
    if picture.mode not in _MODES:
        raise DataError(
            f"A PIL image of mode {picture.mode!r} cannot be transformed; convert it to one of {', '.join(_MODES)}: "
            "image.convert('RGB')."
        )
    pixels = torch.from_numpy(np.array(picture))
    channels_first = pixels[None] if pixels.dim() == 2 else pixels.permute(2, 0, 1)
    moved = transformed_pixels(channels_first, transform)
    rows = moved[0] if picture.mode == "L" else moved.permute(1, 2, 0)
    return Image.fromarray(rows.contiguous().numpy())
