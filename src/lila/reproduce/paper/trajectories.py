"""Figure 2 and similar figures of the appendix: the six ranges during training, on five versions of each data set."""

from collections.abc import Callable, Mapping
from math import pi
from statistics import mean
from typing import TYPE_CHECKING

from lila.data.transformed import VersionName, true_ranges
from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.images import learned_augmentation
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.engine.results import history_rows, learned_ranges
from lila.reproduce.paper.plans import (
    NETWORKS,
    networks_of,
    plan,
    seeds_by_network,
    seeds_of,
    versions_in,
    versions_of,
)
from lila.results.plots import plot_flow, plot_trajectories
from lila.results.plots.style import new_figure
from lila.results.tables import Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WITHIN = 0.3  # largest relative error of a range that counts as recovered
_OTHERS_BELOW = 0.3  # 17 degrees, 4 of 28 pixels, or a factor of 1.35
_MOSTLY = 0.7  # share of a half turn from which on a larger range changes little


class Trajectories(Experiment):
    """The ranges by epoch."""

    name = "trajectories"
    title = "Trajectories of the six ranges on five versions of each data set (figure 2 and appendix)"
    claim = "From zero, lila learns the kind and the amount of the invariance of each data set, and nothing else."
    reproduced_if = (
        f"on each transformed version the mean ranges of what it was transformed by are larger than all others. To "
        f"recover them means more: they lie within {_WITHIN:.0%} of the truth (full rotations: above {_MOSTLY:.0%} of "
        f"a half turn), and those of all other generators below {_OTHERS_BELOW}"
    )
    small_seeds = 1
    scales = tuple(Scale)

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (data, model, version.value, seed): plan(data, model, scale).changed(version.value, seed=seed).job()
            for data, model in NETWORKS[scale]
            for seed in seeds_of(model, scale, seeds)
            for version in versions_of(model, scale)
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        cells = group_seeds(results)
        generators = list(next(iter(results.values()))["ranges"])
        networks = networks_of(cells)
        table_rows = [
            [data, model, version, *(spread(learned_ranges(runs, name)) for name in generators)]
            for (data, model, version), runs in _named(cells)
        ]
        rows = [
            {"data": cell[0], "network": cell[1], "version": cell[2], "seed": cell[3], "epoch": row.epoch}
            | dict(row.ranges)
            for cell, result in results.items()
            for row in history_rows(result)
        ]
        columns = ["data", "network", "version", *generators]
        return Summary(
            [Table("Ranges in the end (radians, half sides, log-scale)", columns, table_rows)],
            [verdict for data, model in networks for verdict in _verdicts(data, model, cells)],
            figures={f"{data}-{model}": _figure_of(data, model, cells) for data, model in networks},
            rows=rows,
            remarks=seeds_by_network(cells),
        )


def _verdicts(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> list[Verdict]:
    """Judge whether the ranges of what a version was transformed by lead, and whether they and the others are right."""
    behind, wrong = [], []
    for version in versions_in(cells, data, model):
        if version is VersionName.ORIGINAL:
            continue
        runs = cells[data, model, version.value]
        truths = true_ranges(version, tuple(runs[0]["shape"]))
        learned = {name: mean(learned_ranges(runs, name)) for name in truths}
        least = min(value for name, value in learned.items() if truths[name])
        largest = max(value for name, value in learned.items() if not truths[name])
        if least <= largest:
            behind.append(f"{version}: {least:.2f} behind {largest:.2f}")
        wrong += [
            f"{version}: {name} {value:.2f} (truth {truths[name]:.2f})"
            for name, value in learned.items()
            if not _right(value, truths[name])
        ]
    leads = f"{model} on {data}: what each version was transformed by has larger ranges than anything else"
    recovers = f"{model} on {data}: recovers what each version was transformed by, and nothing else"
    return [
        Verdict(leads, not behind, "; ".join(behind) or "all versions"),
        Verdict(recovers, not wrong, "; ".join(wrong) or "all ranges"),
    ]


def _right(value: float, truth: float) -> bool:
    if truth == 0:
        return value < _OTHERS_BELOW
    return value > _MOSTLY * pi if truth == pi else abs(value - truth) < _WITHIN * truth


def _named(cells: Mapping[Cell, list[Result]]) -> list[tuple[tuple[str, str, str], list[Result]]]:
    return [((str(cell[0]), str(cell[1]), str(cell[2])), runs) for cell, runs in cells.items()]


def _figure_of(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> "Callable[[], Figure]":
    def draw() -> "Figure":
        versions = versions_in(cells, data, model)
        figure = new_figure(3.1 * len(versions), 4.2)
        columns = figure.subfigures(1, len(versions), squeeze=False)[0]
        for column, version in zip(columns, versions, strict=True):
            runs = cells[data, model, version.value]
            shape = tuple(runs[0]["shape"])
            rows = column.subplot_mosaic([["ranges", "ranges"], ["flow 0", "flow 1"]], height_ratios=(1.5, 1))
            last = version is versions[-1]
            plot_trajectories(rows["ranges"], history_rows(runs[0]), true_ranges(version, shape), labels=last)
            rows["ranges"].set_title(version.value, fontsize=11, loc="left")
            rows["ranges"].set_ylabel("range" if version is versions[0] else "")
            augmentation = learned_augmentation(runs[0])
            for seed in (0, 1):
                plot_flow(rows[f"flow {seed}"], augmentation, shape, seed)
        return figure

    return draw
