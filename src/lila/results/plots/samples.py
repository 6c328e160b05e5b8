"""Images, or time series, under the learned distribution of transformations."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila.augment.base import Augmentation
from lila.augment.noise import Draw
from lila.data.images import SERIES_DIMENSIONS
from lila.results.plots.style import COLOURS, INK, empty_axes

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
    """Draw each image or series, followed by random transformations of it.

    Args:
        rows: the axes to draw on, one row per image.
        augmentation: the augmentation with its learned ranges.
        images: inputs of the network, shape (rows, c, h, w) for images or (rows, c, t) for series.
        show: maps inputs of the network back to pixels in [0, 1], or to the unit of a series.
        seed: the seed of the transformations.
    """
    images = images[: len(rows)]
    index = torch.arange(len(images), device=images.device)
    noise = Draw(seed).uniform(index, (len(rows[0]) - 1, augmentation.noise_dim), images.dtype)
    with torch.no_grad():
        views = augmentation(images, noise)
        shown = show(torch.cat([images[:, None], views], dim=1).flatten(0, 1)).cpu()
    for i, axes in enumerate(axes for row in rows[: len(images)] for axes in row):
        if shown.dim() == SERIES_DIMENSIONS + 1:
            _plot_series(axes, shown[i], *shown.aminmax())
        else:
            axes.imshow(shown[i].clamp(0, 1).permute(1, 2, 0).numpy(), cmap="gray", vmin=0, vmax=1)
        empty_axes(axes)


def _plot_series(axes: "Axes", series: Tensor, low: Tensor, high: Tensor) -> None:
    """Draw a line for each channel of a series (c, t), on a vertical axis that all series share."""
    colours = (INK,) if len(series) == 1 else COLOURS
    for i, channel in enumerate(series):
        axes.plot(channel.numpy(), c=colours[i % len(colours)], lw=0.9)
    margin = 0.05 * float(high - low) or 1.0
    axes.set_ylim(float(low) - margin, float(high) + margin)
