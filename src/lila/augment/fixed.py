"""Augmentations under noise that is the same for every input, as modules of their own.

Everything that does not depend on the input is computed when the module is made. So the graph of an exported network
holds the resampling of images, and not the matrix exponentials behind it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from lila.augment.warp import Interpolation, Padding, resample, sampling_grid


class FixedNoise(nn.Module):
    """Any augmentation with a constant for its noise.

    Args:
        augmentation: maps inputs (b, *shape) and noise (b, s, k) to views (b, s, *shape).
        noise: the noise of all inputs, shape (s, k).
    """

    noise: Tensor

    def __init__(self, augmentation: nn.Module, noise: Tensor) -> None:
        super().__init__()
        self.augmentation = augmentation
        self.register_buffer("noise", noise.clone(memory_format=torch.contiguous_format))

    def forward(self, x: Tensor) -> Tensor:
        """Return the views (b, s, *shape) of inputs (b, *shape)."""
        views: Tensor = self.augmentation(x, self.noise.expand(x.shape[0], -1, -1))
        return views


class FixedWarps(nn.Module):
    """Images under the same affine maps.

    Args:
        inverse: the maps from output to input coordinates, shape (s, 3, 3).
        padding: what lies outside the image.
    """

    inverse: Tensor

    def __init__(self, inverse: Tensor, padding: Padding) -> None:
        super().__init__()
        self.padding = padding
        self.register_buffer("inverse", inverse)

    def forward(self, x: Tensor) -> Tensor:
        """Return the views (b, s, c, h, w) of images (b, c, h, w)."""
        grid = sampling_grid(self.inverse[None], x.shape[2], x.shape[3])
        return resample(x, grid, self.padding, Interpolation.BILINEAR)


class FixedOutcomes(nn.Module):
    """Inputs under the same choice of maps.

    Args:
        maps: the map of each view, of inputs (b, *shape) to inputs of the same shape.
    """

    def __init__(self, maps: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.maps = tuple(maps)

    def forward(self, x: Tensor) -> Tensor:
        """Return the views (b, s, *shape) of inputs (b, *shape)."""
        return torch.stack([transform(x) for transform in self.maps], dim=1)


class FixedSequence(nn.Module):
    """Augmentations one after the other.

    Args:
        first: makes the views (b, s, *shape) of inputs (b, *shape).
        others: for each further augmentation, one module per view, which makes one view of it.
    """

    def __init__(self, first: nn.Module, others: Sequence[Sequence[nn.Module]]) -> None:
        super().__init__()
        self.first = first
        self.others = nn.ModuleList(nn.ModuleList(per_view) for per_view in others)

    def forward(self, x: Tensor) -> Tensor:
        """Return the views (b, s, *shape) of inputs (b, *shape)."""
        views: Tensor = self.first(x)
        for per_view in self.others:
            assert isinstance(per_view, nn.ModuleList)
            views = torch.cat([module(view) for module, view in zip(per_view, views.unbind(1), strict=True)], 1)
        return views
