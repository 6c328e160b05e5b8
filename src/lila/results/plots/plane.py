"""Points of two classes in the plane, over the predictions of a network."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila.results.plots.style import empty_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = ("#1f4e9c", "#a01c2c")
_SIDE = 60  # grid points along each side


def grid(reach: float = 1.4, side: int = _SIDE) -> Tensor:
    """Return points (side^2, 2) that cover a square around the origin, row by row."""
    line = torch.linspace(-reach, reach, side)
    return torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1).reshape(-1, 2)


def plot_plane(
    axes: "Axes", data: tuple[Tensor, Tensor], predict: Callable[[Tensor], Tensor] | Tensor, reach: float = 1.4
) -> None:
    """Draw the points of two classes over the probability of the second class.

    Args:
        axes: the axes to draw on.
        data: points (n, 2), and their classes, 0 or 1.
        predict: a function that returns the probability of class 1 at points (m, 2), or the probabilities on
            `grid(reach)`.
        reach: half the side of the square that is drawn.
    """
    probability = predict if isinstance(predict, Tensor) else predict(grid(reach))
    side = round(len(probability) ** 0.5)
    line = torch.linspace(-reach, reach, side).numpy()
    shown = probability.detach().cpu().reshape(side, side).clamp(0, 1).numpy()
    axes.contourf(line, line, shown, levels=20, cmap="RdBu_r", vmin=0, vmax=1, alpha=0.7)
    for label, colour in enumerate(_POINTS):
        points = data[0][data[1] == label]
        x, y = points.T.cpu().numpy()
        axes.scatter(x, y, s=9, c=colour, edgecolors="white", linewidths=0.3)
    axes.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    empty_axes(axes)
