"""One picture of a run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lila._util.files import replaced
from lila.data.images import SERIES_DIMENSIONS
from lila.errors import ArgumentError
from lila.results.plots.flow import flow, plot_flow
from lila.results.plots.samples import plot_samples
from lila.results.plots.style import new_figure, save
from lila.results.plots.trajectories import plot_trajectories
from lila.training.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_ROWS, _COLUMNS = 4, 7
_DIRECTIONS = 2


def draw_run(
    run: Run,
    path: str | Path,
    truth: Mapping[str, float] | None = None,
    images: Tensor | None = None,
    *,
    show: Callable[[Tensor], Tensor] = lambda x: x,
) -> None:
    """Draw the trajectories of a run's ranges, and images or time series under the learned distribution.

    Args:
        run: the run.
        path: the PNG, SVG or PDF file to write.
        truth: the ranges by which the data was transformed, by name, drawn as dashed lines.
        images: a few inputs of the network, shape (n, c, h, w) for images or (n, c, t) for series.
        show: maps inputs of the network back to pixels in [0, 1], or to the unit of a series.
    """
    path = Path(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ArgumentError(f"A picture is written to a .png, .svg or .pdf file, not to {path.name!r}.")
    if not run.ranges:
        raise ArgumentError("This run has no ranges to draw: its network is not averaged over transformations.")
    directions = _principal_directions(run)
    widths = [1.15] + [1.0] * (images is not None) + [0.45] * bool(directions)
    figure = new_figure(4.7 * sum(widths) if len(widths) > 1 else 6.5, 3.8)
    left: Figure | SubFigure = figure
    if len(widths) > 1:
        left, *others = figure.subfigures(1, len(widths), width_ratios=widths, squeeze=False)[0]
        if directions:
            _draw_directions(others[-1], run, directions)
    if images is not None:
        right = others[0]
        grid = right.subplots(min(_ROWS, len(images)), _COLUMNS, squeeze=False)
        plot_samples(grid.tolist(), run.model.augmentation, images, show)
        what = "series" if images.dim() == SERIES_DIMENSIONS + 1 else "images"
        right.suptitle(f"{what}, and each under the learned distribution", fontsize=11, x=0.02, ha="left")
    axes = left.subplots()
    plot_trajectories(axes, run.history, truth, unit=run.model.augmentation.unit)
    axes.set_title("learned ranges" + (" (dashed: the data's)" if truth is not None else ""), fontsize=11, loc="left")
    with replaced(path) as temporary, torch.no_grad():
        save(figure, temporary, path.suffix[1:], dpi=140)


def _principal_directions(run: Run) -> dict[str, Tensor]:
    """Return the two largest directions of coupled ranges by label; none if nothing is coupled or can be drawn."""
    augmentation = run.model.augmentation
    if not augmentation.couplings() or flow(augmentation, run.shape) is None:
        return {}
    return dict(list(augmentation.directions(run.shape).items())[:_DIRECTIONS])


def _draw_directions(figure: "SubFigure", run: Run, directions: Mapping[str, Tensor]) -> None:
    """Draw directions as arrows, one below the other."""
    rows = figure.subplots(_DIRECTIONS, 1, squeeze=False)[:, 0]
    for axes, (label, noise) in zip(rows, directions.items(), strict=False):
        plot_flow(axes, run.model.augmentation, run.shape, noise=noise)
        axes.set_title(label.replace(", ", "\n"), fontsize=7, loc="left")
    for axes in rows[len(directions) :]:
        axes.set_visible(False)
    figure.suptitle("principal directions", fontsize=11, x=0.02, ha="left")
