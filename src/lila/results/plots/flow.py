"""Where a transformation takes the pixels of an image."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila.augment.families import LieImages
from lila.augment.noise import Draw
from lila.results.plots.style import INK, empty_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_flow(
    axes: "Axes",
    augmentation: LieImages,
    shape: tuple[int, ...],
    seed: int = 0,
    arrows: int = 7,
    colour: str = INK,
) -> None:
    """Draw a transformation drawn from the learned distribution as arrows, as long as pixels move.

    An arrow starts at the place p of a pixel and ends at T p, where T = exp(sum_i eps_i r_i G_i) takes what is shown
    there: x'(T p) = x(p).

    Args:
        axes: to draw on.
        augmentation: with its ranges.
        shape: of an image, whose last two numbers are its height and width.
        seed: of the transformation.
        arrows: along the longer side.
        colour: of the arrows.
    """
    height, width = shape[-2:]
    p = _places(height, width, arrows)
    eta = augmentation.eta
    noise = Draw(seed).uniform(torch.zeros(1, dtype=torch.long, device=eta.device), (1, len(eta)), eta.dtype)
    with torch.no_grad():
        T = augmentation.elements(noise)[0, 0].cpu().double()
    half = max(height, width) / 2
    moved = (p / half) @ T[:2, :2].mT + T[:2, 2]  # in half sides, the generators' unit
    x, y = p.T.numpy()
    axes.quiver(x, y, *(moved * half - p).T.numpy(), angles="xy", scale_units="xy", scale=1, color=colour)
    margin = 0.6 * half
    axes.set(xlim=(-half - margin, half + margin), ylim=(half + margin, -half - margin), aspect="equal")
    right, low = width / 2, height / 2
    axes.plot([-right, right, right, -right, -right], [-low, -low, low, low, -low], c=INK, lw=0.8, alpha=0.5)
    empty_axes(axes)


def _places(height: int, width: int, arrows: int) -> Tensor:
    """Evenly spread places (n, 2) of an image as (x, y) in pixels from its middle, y downwards."""
    spacing = max(height, width) / arrows
    across, down = max(1, round(width / spacing)), max(1, round(height / spacing))
    x = (torch.arange(across, dtype=torch.float64) - (across - 1) / 2) * width / across
    y = (torch.arange(down, dtype=torch.float64) - (down - 1) / 2) * height / down
    return torch.cartesian_prod(x, y)
