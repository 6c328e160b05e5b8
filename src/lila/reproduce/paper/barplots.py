"""Learned ranges as bars, and images transformed by samples of the learned distribution, by data set and network."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lila.data.transformed import true_ranges
from lila.reproduce.engine.experiment import Cell, Scale, Summary, group_seeds
from lila.reproduce.engine.images import learned_augmentation, pictures, scaling
from lila.reproduce.engine.jobs import Result
from lila.reproduce.paper.plans import networks_of, versions_in
from lila.reproduce.paper.trajectories import Trajectories
from lila.results.plots import plot_ranges, plot_samples
from lila.results.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IMAGES, _SAMPLES = 2, 3


class Barplots(Trajectories):
    """The final ranges of the runs of `Trajectories`."""

    name = "barplots"
    title = "Learned ranges and sample images per data set and network (appendix)"

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        summary = super().summarise(results, scale)
        cells = group_seeds(results)
        rows = [
            dict(zip(("data", "network", "version", "seed"), cell, strict=True)) | result["ranges"]
            for cell, result in results.items()
        ]
        figures = {f"{data}-{model}": partial(_figure, data, model, cells) for data, model in networks_of(cells)}
        return replace(summary, figures=figures, rows=rows)


def _figure(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> "Figure":
    versions = versions_in(cells, data, model)
    figure = new_figure(2.9 * len(versions), 4.6)
    columns = figure.subfigures(1, len(versions), squeeze=False)[0]
    for column, version in zip(columns, versions, strict=True):
        runs = cells[data, model, version.value]
        above, below = column.subfigures(2, 1, height_ratios=(1.4, 1))
        axes = above.subplots()
        plot_ranges(axes, [run["ranges"] for run in runs], true_ranges(version, tuple(runs[0]["shape"])))
        axes.set_title(version.value, fontsize=11, loc="left")
        if version is versions[0]:
            axes.set_ylabel("range")
        scale = scaling(runs[0])
        augmentation = learned_augmentation(runs[0])
        rows = below.subplots(_IMAGES, _SAMPLES + 1, squeeze=False)
        plot_samples(rows.tolist(), augmentation, scale(pictures(runs[0])), scale.undo)
    return figure
