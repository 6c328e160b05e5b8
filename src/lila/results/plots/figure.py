"""A run in one picture."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from lila._util.files import replaced
from lila.errors import ArgumentError
from lila.results.plots.samples import plot_samples
from lila.results.plots.style import new_figure, save
from lila.results.plots.trajectories import plot_trajectories
from lila.training.run import Run

_ROWS, _COLUMNS = 4, 7


def draw_run(
    run: Run,
    path: str | Path,
    truth: Mapping[str, float] | None = None,
    images: Tensor | None = None,
    show: Callable[[Tensor], Tensor] = lambda x: x,
) -> None:
    """Draw the trajectories of a run's ranges, and images under the learned distribution.

    Args:
        run: of which augmentation.
        path: a PNG, SVG or PDF file.
        truth: the ranges of the data by generator, drawn dashed.
        images: a few inputs of the network, shape (n, c, h, w).
        show: takes such inputs back to [0, 1].
    """
    path = Path(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ArgumentError(f"A picture is a .png, .svg or .pdf file, not {path.name}.")
    if not run.ranges:
        raise ArgumentError("This run has no ranges to draw: its network is not averaged over transformations.")
    figure = new_figure(11 if images is not None else 6.5, 3.8)
    parts = list(figure.subfigures(1, 2, width_ratios=(1.15, 1), squeeze=False)[0]) if images is not None else [figure]
    axes = parts[0].subplots()
    plot_trajectories(axes, run.history, truth)
    axes.set_title("learned ranges" + (" (dashed: the data's)" if truth is not None else ""), fontsize=11, loc="left")
    if images is not None:
        grid = parts[1].subplots(min(_ROWS, len(images)), _COLUMNS, squeeze=False)
        plot_samples(grid.tolist(), run.model.augmentation, images, show)
        parts[1].suptitle("images, and each under the learned distribution", fontsize=11, x=0.02, ha="left")
    with replaced(path) as temporary, torch.no_grad():
        save(figure, temporary, path.suffix[1:], dpi=140)
