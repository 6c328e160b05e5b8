"""Resampling images under affine maps.

Coordinates: the origin is the centre of the image, x points right, y points down, and the unit is half the longer side,
so that a square image covers [-1, 1] x [-1, 1] from edge to edge and a rotation of a rectangular one is rigid. Pixel
centres lie half a pixel inside the edges (`align_corners=False` in PyTorch's words).
"""

from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor


class Padding(StrEnum):
    """What lies outside the image."""

    ZEROS = "zeros"
    BORDER = "border"
    REFLECTION = "reflection"


def warp(images: Tensor, inverse: Tensor, padding: Padding) -> Tensor:
    """Bilinear resampling x'(p) = x(inverse p) at every pixel p of the output (technical_details.tex).

    Args:
        images: shape (b, c, h, w).
        inverse: maps from output to input coordinates, homogeneous matrices of shape (b, s, 3, 3).
        padding: what lies outside the image.

    Returns:
        The warped images, shape (b, s, c, h, w).
    """
    batch, channels, height, width = images.shape
    samples = inverse.shape[1]
    # PyTorch's grid covers each side by [-1, 1]: u = stretch * coordinate.
    longer = max(height, width)
    stretch = torch.tensor([longer / width, longer / height], dtype=images.dtype, device=images.device)
    inverse = inverse.to(images.dtype)
    linear = inverse[..., :2, :2] * stretch[:, None] / stretch
    shift = inverse[..., :2, 2] * stretch
    theta = torch.cat([linear, shift[..., None]], dim=-1).flatten(0, 1)  # (b s, 2, 3)
    grid = F.affine_grid(theta, [batch * samples, channels, height, width], align_corners=False)
    # The samples of one image are stacked in the height of one tall output, so that the image is not copied s times.
    tall = grid.view(batch, samples * height, width, 2)
    warped = F.grid_sample(images, tall, mode="bilinear", padding_mode=padding.value, align_corners=False)
    return warped.view(batch, channels, samples, height, width).transpose(1, 2)
