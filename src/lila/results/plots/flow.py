"""Arrows that show where a transformation takes the pixels of an image."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila.augment.base import Augmentation, Shape
from lila.augment.noise import Draw
from lila.errors import ArgumentError
from lila.results.plots.style import INK, empty_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ARROWS = 7


def flow(
    augmentation: Augmentation, shape: Shape, seed: int = 0, arrows: int = _ARROWS, *, noise: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """Return the starts and ends of the arrows that show one transformation.

    Args:
        augmentation: the augmentation with its learned ranges.
        shape: the shape of an image, which ends with its height and width.
        seed: the seed of the transformation.
        arrows: the number of arrows along the longer side.
        noise: the noise of the transformation, shape (k,); random by the seed if None.

    Returns:
        Two tensors of shape (n, 2), (x, y) in pixels from the centre of the image; None if inputs are not images, or
        the augmentation does not say where it takes points.
    """
    if len(shape) < 2:
        return None  # the inputs are not images
    like = next(augmentation.parameters(), torch.zeros(()))
    if noise is None:
        example = torch.zeros(1, dtype=torch.long, device=like.device)
        noise = Draw(seed).uniform(example, (augmentation.noise_dim,), like.dtype)[0]
    height, width = shape[-2:]
    points = _points(height, width, arrows)
    with torch.no_grad():
        moved = augmentation.move_points(points.to(like.device), noise, shape)
    return None if moved is None else (points, moved.cpu())


def plot_flow(
    axes: "Axes",
    augmentation: Augmentation,
    shape: Shape,
    seed: int = 0,
    *,
    arrows: int = _ARROWS,
    colour: str = INK,
    noise: Tensor | None = None,
) -> None:
    """Draw one transformation as arrows from where pixels are to where it takes them.

    Args:
        axes: the axes to draw on.
        augmentation: the augmentation with its learned ranges.
        shape: the shape of an image, which ends with its height and width.
        seed: the seed of the transformation.
        arrows: the number of arrows along the longer side.
        colour: the colour of the arrows.
        noise: the noise of the transformation, shape (k,); random by the seed if None.
    """
    found = flow(augmentation, shape, seed, arrows, noise=noise)
    if found is None:
        raise ArgumentError(
            f"{type(augmentation).__name__} has no picture of arrows for inputs of shape {shape}: it does not say "
            "where it takes points of an image (`Augmentation.move_points`)."
        )
    start, end = found
    axes.quiver(*start.T.numpy(), *(end - start).T.numpy(), angles="xy", scale_units="xy", scale=1, color=colour)
    height, width = shape[-2:]
    half = max(height, width) / 2
    margin = 0.6 * half
    axes.set(xlim=(-half - margin, half + margin), ylim=(half + margin, -half - margin), aspect="equal")
    right, low = width / 2, height / 2
    axes.plot([-right, right, right, -right, -right], [-low, -low, low, low, -low], c=INK, lw=0.8, alpha=0.5)
    empty_axes(axes)


def _points(height: int, width: int, arrows: int) -> Tensor:
    """Return evenly spread points (n, 2) of an image as (x, y) in pixels from its centre, y downwards."""
    spacing = max(height, width) / arrows
    across, down = max(1, round(width / spacing)), max(1, round(height / spacing))
    x = (torch.arange(across, dtype=torch.float64) - (across - 1) / 2) * width / across
    y = (torch.arange(down, dtype=torch.float64) - (down - 1) / 2) * height / down
    return torch.cartesian_prod(x, y)
