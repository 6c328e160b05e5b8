"""Figure 2 and the appendix's like it: the six ranges over training, on five versions of each data set."""

from collections.abc import Callable, Mapping
from math import pi
from typing import TYPE_CHECKING

from lila.data.transformed import true_ranges
from lila.reproduce.engine.experiment import (
    Cell,
    Experiment,
    Scale,
    Summary,
    Verdict,
    learned,
    networks_of,
    over_seeds,
    records,
    seeds_by_network,
)
from lila.reproduce.engine.images import learned_augmentation
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.paper.plans import NETWORKS, VERSIONS, plan, seeds_of
from lila.results.plots import plot_flow, plot_trajectories
from lila.results.plots.style import new_figure
from lila.results.tables import Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHIN = 0.3  # of the true range
OTHERS_BELOW = 0.3  # 17 degrees, 4 of 28 pixels, or a factor of 1.35
_MOSTLY = 0.7  # of a half turn, where a larger range changes little


class Trajectories(Experiment):
    """The ranges over training."""

    name = "trajectories"
    title = "Trajectories of the six ranges on five versions of each data set (figure 2 and appendix)"
    claim = "From zero, lila learns the kind and the amount of the invariance of each data set, and nothing else."
    reproduced_if = (
        f"on each transformed version the mean range of what it was transformed by lies within {WITHIN:.0%} of the "
        f"truth (full rotations: above {_MOSTLY:.0%} of a half turn), and that of every other generator below "
        f"{OTHERS_BELOW}"
    )
    small_seeds = 1

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (data, model, version.value, seed): plan(data, model, scale).but(version.value, seed=seed).job()
            for data, model in NETWORKS[scale]
            for seed in seeds_of(model, scale, seeds)
            for version in VERSIONS
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        cells = over_seeds(results)
        generators = list(next(iter(results.values()))["ranges"])
        networks = networks_of(cells)
        rows = [
            [data, model, version, *(spread(learned(runs, name)) for name in generators)]
            for (data, model, version), runs in _named(cells)
        ]
        flat = [
            {"data": cell[0], "network": cell[1], "version": cell[2], "seed": cell[3], "epoch": record.epoch}
            | dict(record.ranges)
            for cell, result in results.items()
            for record in records(result)
        ]
        return Summary(
            [
                Table(
                    "Ranges in the end (radians, half sides, log-scale)",
                    ["data", "network", "version", *generators],
                    rows,
                )
            ],
            [verdict(data, model, cells) for data, model in networks],
            {f"{data}-{model}": _figure_of(data, model, cells) for data, model in networks},
            flat,
            seeds_by_network(cells),
        )


def verdict(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> Verdict:
    """Whether the ranges of each version were recovered by a network, and nothing else was learned."""
    wrong = []
    for version in VERSIONS[:-1]:
        runs = cells[data, model, version.value]
        for name, truth in true_ranges(version, tuple(runs[0]["shape"])).items():
            values = learned(runs, name)
            value = sum(values) / len(values)
            if not _right(value, truth):
                wrong.append(f"{version}: {name} {value:.2f} (truth {truth:.2f})")
    claim = f"{model} on {data}: recovers what each version was transformed by, and nothing else"
    return Verdict(claim, not wrong, "; ".join(wrong) or "all ranges")


def _right(value: float, truth: float) -> bool:
    if truth == 0:
        return value < OTHERS_BELOW
    return value > _MOSTLY * pi if truth == pi else abs(value - truth) < WITHIN * truth


def _named(cells: Mapping[Cell, list[Result]]) -> list[tuple[tuple[str, str, str], list[Result]]]:
    return [((str(cell[0]), str(cell[1]), str(cell[2])), runs) for cell, runs in cells.items()]


def _figure_of(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> "Callable[[], Figure]":
    def draw() -> "Figure":
        figure = new_figure(3.1 * len(VERSIONS), 4.2)
        parts = figure.subfigures(1, len(VERSIONS), squeeze=False)[0]
        for part, version in zip(parts, VERSIONS, strict=True):
            runs = cells[data, model, version.value]
            shape = tuple(runs[0]["shape"])
            rows = part.subplot_mosaic([["ranges", "ranges"], ["flow 0", "flow 1"]], height_ratios=(1.5, 1))
            last = version is VERSIONS[-1]
            plot_trajectories(rows["ranges"], records(runs[0]), true_ranges(version, shape), labels=last)
            rows["ranges"].set_title(version.value, fontsize=11, loc="left")
            rows["ranges"].set_ylabel("range" if version is VERSIONS[0] else "")
            augmentation = learned_augmentation(runs[0])
            for seed in (0, 1):
                plot_flow(rows[f"flow {seed}"], augmentation, shape, seed)
        return figure

    return draw
