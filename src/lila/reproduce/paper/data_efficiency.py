"""Test accuracy against the number of training images."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING

from lila.data.transformed import VersionName
from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.engine.results import accuracies
from lila.reproduce.paper import published
from lila.reproduce.paper.accuracy import METHODS
from lila.reproduce.paper.plans import DATA_VERSIONS, NETWORKS, plan
from lila.results.plots.style import COLOURS, new_figure, plain_axes
from lila.results.tables import Table, gain, spread, standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALL_SIZES: dict[int, dict[str, int]] = {
    100: {"epochs": 300},
    300: {"epochs": 200},
    1000: {},
}
_FULL_SIZES: dict[int, dict[str, int]] = {
    1000: {"epochs": 400, "burn_in": 80},
    3000: {"epochs": 200, "burn_in": 40},
    10_000: {"epochs": 100, "burn_in": 20},
}
_GREY_SIZES: dict[int, dict[str, int]] = {size: {} for size in (312, 1250, 5000, 20_000, 60_000)}
_COLOUR_SIZES: dict[int, dict[str, int]] = {
    1000: {"epochs": 600},
    5000: {"epochs": 400},
    10_000: {"epochs": 300},
    20_000: {"epochs": 250},
    50_000: {},
}
"""The numbers of images with the settings that differ for each; the last number of the paper's scale is all images.
Fewer images get more epochs, as in the paper."""

_FEWER = {Scale.SMALL: 3, Scale.FULL: 10, Scale.PAPER: 10}
"""The factor by which lila may have fewer images than the non-invariant network and should still be as accurate."""
_PANELS: dict[Scale, list[tuple[str, str, tuple[VersionName, ...]]]] = {
    Scale.SMALL: [(*NETWORKS[Scale.SMALL][0], DATA_VERSIONS[:3])],
    Scale.FULL: [("cifar10", "resnet-8-8", DATA_VERSIONS[:1])],
    Scale.PAPER: [(*network, DATA_VERSIONS) for network in NETWORKS[Scale.PAPER]],
}
"""Data sets and networks by scale, with the versions of the data."""


class DataEfficiency(Experiment):
    """Test accuracy by method and number of training images."""

    name = "data-efficiency"
    title = "Test accuracy against the number of training images (figure 3 and appendix)"
    claim = "Learning invariances improves accuracy at every size of the training set, most of all at small ones."
    reproduced_if = (
        "on each version the mean accuracy of lila is above that of the non-invariant network at every size, and on "
        "fully rotated images lila reaches the non-invariant network's accuracy on the most images with a tenth of "
        "them (at the small scale: a third)"
    )

    scales = tuple(Scale)

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        jobs: dict[Cell, Job] = {}
        for seed in range(seeds):
            for data, model, versions in _PANELS[scale]:
                for version in versions:
                    for method in METHODS:
                        for size, changes in _sizes(data, scale).items():
                            training = plan(data, model, scale, method).changed(version.value, seed=seed, **changes)
                            subset = None if size == published.TRAINING_IMAGES[data] else size
                            cell = (data, model, version.value, method, size, seed)
                            jobs[cell] = replace(training, subset=subset).job()
        return jobs

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        cells = group_seeds(results)
        panels = list(dict.fromkeys(cell[:3] for cell in cells))
        sizes = {panel: sorted({int(cell[4]) for cell in cells if cell[:3] == panel}) for panel in panels}
        tables = [
            Table(
                f"Test accuracy in percent, {panel[1]} on {panel[2]} {panel[0]}",
                ["method", *(f"{size:,} images" for size in sizes[panel])],
                [
                    [method, *(spread(accuracies(cells[*panel, method, size]), 1) for size in sizes[panel])]
                    for method in METHODS
                ],
            )
            for panel in panels
        ]
        names = ("data", "network", "version", "method", "images", "seed")
        rows = [
            dict(zip(names, cell, strict=True)) | {"accuracy": result["test"]["accuracy"]}
            for cell, result in results.items()
        ]
        verdicts = [_verdict(panel, sizes[panel], cells) for panel in panels]
        verdicts += [
            _as_accurate_with_fewer(panel, sizes[panel], cells, _FEWER[scale])
            for panel in panels
            if panel[2] == "fully-rotated"
        ]
        return Summary(tables, verdicts, figures={self.name: lambda: _figure(panels, sizes, cells)}, rows=rows)


def _mean(panel: Cell, method: str, size: int, cells: Mapping[Cell, list[Result]]) -> float:
    return mean(accuracies(cells[*panel, method, size]))


def _verdict(panel: Cell, sizes: list[int], cells: Mapping[Cell, list[Result]]) -> Verdict:
    both = {
        size: (accuracies(cells[*panel, "lila", size]), accuracies(cells[*panel, "non-invariant", size]))
        for size in sizes
    }
    found = ", ".join(f"{size:,} images {gain(ours, theirs, 1)}" for size, (ours, theirs) in both.items())
    claim = f"{panel[1]} on {panel[2]} {panel[0]}: lila is more accurate than the non-invariant network at every size"
    return Verdict(claim, all(mean(ours) > mean(theirs) for ours, theirs in both.values()), found)


def _as_accurate_with_fewer(panel: Cell, sizes: list[int], cells: Mapping[Cell, list[Result]], factor: int) -> Verdict:
    """Judge whether lila is as accurate as the non-invariant network with fewer images by at least a factor."""
    most = sizes[-1]
    few = max(size for size in sizes if size <= most / factor)
    ours, theirs = _mean(panel, "lila", few, cells), _mean(panel, "non-invariant", most, cells)
    claim = f"{panel[1]} on {panel[2]} {panel[0]}: lila with {few:,} images is as accurate as the other with {most:,}"
    return Verdict(claim, ours >= theirs, f"{ours:.1f} and {theirs:.1f}")


def _figure(panels: list[Cell], sizes: Mapping[Cell, list[int]], cells: Mapping[Cell, list[Result]]) -> "Figure":
    figure = new_figure(3.2 * len(panels), 3.3)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for i, method in enumerate(METHODS):
            values = [accuracies(cells[*panel, method, size]) for size in sizes[panel]]
            means, errors = [mean(v) for v in values], [standard_error(v) for v in values]
            axes.errorbar(sizes[panel], means, errors, c=COLOURS[2 * i], marker="o", ms=4, capsize=2, label=method)
        axes.set(xscale="log", xlabel="training images")
        axes.set_title(f"{panel[2]} {panel[0]}, {panel[1]}", fontsize=11, loc="left")
        axes.set_xticks(sizes[panel], [f"{size:,}" for size in sizes[panel]])
        axes.minorticks_off()
        plain_axes(axes)
    figure.axes[0].set_ylabel("test accuracy, percent")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    return figure


def _sizes(data: str, scale: Scale) -> dict[int, dict[str, int]]:
    """Return the numbers of images of a data set, with the settings that differ for each."""
    if scale is Scale.PAPER:
        return _COLOUR_SIZES if data == "cifar10" else _GREY_SIZES
    return _FULL_SIZES if scale is Scale.FULL else _SMALL_SIZES
