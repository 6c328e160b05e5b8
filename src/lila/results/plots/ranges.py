"""Bars of the learned ranges."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING

from lila.results.plots.style import COLOURS, INK, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_ranges(
    axes: "Axes", runs: Sequence[Mapping[str, float]], truth: Mapping[str, float] | None = None, names: bool = True
) -> None:
    """Draw the mean of each learned range over runs as a bar with its standard error, and the true range dashed.

    Args:
        axes: the axes to draw on.
        runs: the ranges of each run by name; the runs differ by their seed.
        truth: the ranges by which the data was transformed, by name; ranges that are left out are 0.
        names: whether to write the names of the ranges below the bars.
    """
    labels = list(runs[0])
    for i, name in enumerate(labels):
        values = [run[name] for run in runs]
        axes.bar(i, mean(values), color=COLOURS[i % len(COLOURS)], width=0.7, alpha=0.85)
        if len(values) > 1:
            axes.errorbar(i, mean(values), yerr=stdev(values) / len(values) ** 0.5, color=INK, lw=1.2, capsize=2)
        if truth is not None:
            axes.plot([i - 0.45, i + 0.45], [truth.get(name, 0.0)] * 2, c=INK, ls=(0, (3, 2)), lw=1.4)
    axes.set_xticks(range(len(labels)), labels if names else [""] * len(labels), rotation=40, ha="right")
    axes.set_ylim(bottom=0)
    plain_axes(axes)
