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


class Interpolation(StrEnum):
    """How values between pixel centres are found."""

    BILINEAR = "bilinear"
    NEAREST = "nearest"


def warp(
    images: Tensor, inverse: Tensor, padding: Padding, interpolation: Interpolation = Interpolation.BILINEAR
) -> Tensor:
    """Resample images: x'(p) = x(inverse p) at every pixel p of the output.

    Args:
        images: shape (b, c, h, w).
        inverse: the maps from output to input coordinates, homogeneous matrices of shape (b, s, 3, 3).
        padding: what lies outside the image.
        interpolation: bilinear for images, nearest for masks, whose values are labels.

    Returns:
        The warped images, shape (b, s, c, h, w).
    """
    height, width = images.shape[2:]
    return resample(images, sampling_grid(inverse.to(images.dtype), height, width), padding, interpolation)


def sampling_grid(inverse: Tensor, height: int, width: int) -> Tensor:
    """Return where in the input each pixel of the output is taken from, as `F.grid_sample` reads it.

    Args:
        inverse: the maps from output to input coordinates, homogeneous matrices of shape (b, s, 3, 3).
        height: the height of the images.
        width: the width of the images.

    Returns:
        The places, shape (b, s, h, w, 2).
    """
    # PyTorch's grid covers each side by [-1, 1]: u = stretch * coordinate.
    longer = max(height, width)
    stretch = torch.tensor([longer / width, longer / height], dtype=inverse.dtype, device=inverse.device)
    linear = inverse[..., :2, :2] * stretch[:, None] / stretch
    shift = inverse[..., :2, 2] * stretch
    theta = torch.cat([linear, shift[..., None]], dim=-1)  # (b, s, 2, 3)
    return _grid(theta, height, width)


def resample(images: Tensor, grid: Tensor, padding: Padding, interpolation: Interpolation) -> Tensor:
    """Return images (b, c, h, w) at the places of a grid, (b, s, h, w, 2) or (1, s, h, w, 2), as (b, s, c, h, w)."""
    batch, channels, height, width = images.shape
    samples = grid.shape[1]
    # The samples of one image are stacked in the height of one tall output, so that the image is not copied s times.
    tall = grid.flatten(1, 2).expand(batch, -1, -1, -1)
    warped = F.grid_sample(images, tall, mode=interpolation.value, padding_mode=padding.value, align_corners=False)
    return warped.view(batch, channels, samples, height, width).transpose(1, 2)


def _grid(theta: Tensor, height: int, width: int) -> Tensor:
    """Return the place in the input of each pixel of the output, as `F.affine_grid` does but several times faster.

    With the two coordinates as one complex number, z(x, y) = t_0 x + t_1 y + t_2, where t are the columns of theta.
    This sum of a row and a column is written in one pass over the memory, in the layout of the result. ONNX has no
    complex numbers, so the same sum is written in real numbers where a graph is captured.

    Args:
        theta: the maps, shape (b, s, 2, 3).
        height: the height of the output.
        width: the width of the output.

    Returns:
        The places, shape (b, s, h, w, 2).
    """
    x, y = ((2 * torch.arange(side, dtype=theta.dtype, device=theta.device) + 1) / side - 1 for side in (width, height))
    if torch.compiler.is_compiling():
        t_0, t_1, t_2 = theta[:, :, None, None].unbind(-1)  # each (b, s, 1, 1, 2)
        return t_0 * x[:, None] + (t_1 * y[:, None, None] + t_2)
    t = torch.view_as_complex(theta.mT.clone(memory_format=torch.contiguous_format))[..., None, None]  # (b, s, 3, 1, 1)
    return torch.view_as_real(t[:, :, 0] * x + (t[:, :, 1] * y[:, None] + t[:, :, 2]))
