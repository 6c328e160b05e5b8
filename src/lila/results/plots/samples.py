"""Images under the learned distribution of transformations."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila.augment.base import Augmentation
from lila.augment.noise import Draw
from lila.results.plots.style import empty_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_samples(
    rows: Sequence[Sequence["Axes"]],
    augmentation: Augmentation,
    images: Tensor,
    show: Callable[[Tensor], Tensor] = lambda x: x,
    *,
    seed: int = 0,
) -> None:
    """Draw each image, followed by random transformations of it.

    Args:
        rows: the axes to draw on, one row per image.
        augmentation: the augmentation with its learned ranges.
        images: inputs of the network, shape (rows, c, h, w).
        show: maps inputs of the network back to pixels in [0, 1].
        seed: the seed of the transformations.
    """
    images = images[: len(rows)]
    index = torch.arange(len(images), device=images.device)
    noise = Draw(seed).uniform(index, (len(rows[0]) - 1, augmentation.noise_dim), images.dtype)
    with torch.no_grad():
        views = augmentation(images, noise)
        shown = show(torch.cat([images[:, None], views], dim=1).flatten(0, 1)).clamp(0, 1).cpu()
    for i, axes in enumerate(axes for row in rows[: len(images)] for axes in row):
        axes.imshow(shown[i].permute(1, 2, 0).numpy(), cmap="gray", vmin=0, vmax=1)
        empty_axes(axes)
