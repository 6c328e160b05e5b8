"""The base class of experiments that compare a few trainings on one version of one data set."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import pi
from statistics import mean
from typing import TYPE_CHECKING

from lila.data.transformed import true_ranges
from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.engine.results import accuracies, evidences, history_rows, learned_ranges
from lila.results.plots import plot_trajectories
from lila.results.plots.style import new_figure
from lila.results.tables import Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_TOP = 3.5  # of the figures: a larger range (more than a half turn, or a factor of 30) has diverged


class Comparison(Experiment):
    """Several trainings on one version of one data set, each with a label."""

    @abstractmethod
    def trainings(self, scale: Scale) -> dict[str, Training]:
        """Return the trainings by label; their seed is set later."""

    @abstractmethod
    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        """Return the verdicts on the claims for the results of each label."""

    def remarks(self, runs: Mapping[str, list[Result]]) -> list[str]:
        """Return remarks for the reader, if there are any."""
        return []

    def published_accuracy(self) -> Mapping[str, float]:
        """Return the paper's test accuracy in percent by label, where the paper gives it."""
        return {}

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (label, seed): training.changed(seed=seed).job()
            for seed in range(seeds)
            for label, training in self.trainings(scale).items()
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        runs = {str(cell[0]): by_seed for cell, by_seed in group_seeds(results).items()}
        version = next(iter(self.trainings(scale).values())).version
        rows = [
            {"way": cell[0], "seed": cell[1], "epoch": row.epoch}
            | dict(row.ranges)
            | {"accuracy in the end": result["test"]["accuracy"], "evidence in the end": result["evidence"]["value"]}
            for cell, result in results.items()
            for row in history_rows(result)
        ]
        table = _table(runs, self.published_accuracy())
        figures = {self.name: _figure_of(runs, version)}
        return Summary([table], self.verdicts(runs, scale), figures=figures, rows=rows, remarks=self.remarks(runs))


def better(claim: str, value: Callable[[list[Result]], list[float]], high: list[Result], low: list[Result]) -> Verdict:
    """Return the verdict on the claim that the mean of a value is higher in some runs than in others."""
    one, two = mean(value(high)), mean(value(low))
    return Verdict(claim, one > two, f"{one:.2f} and {two:.2f}")


def rotations(runs: Mapping[str, list[Result]]) -> dict[str, float]:
    """Return the mean range of the rotation by label."""
    return {label: mean(learned_ranges(results, "rotation")) for label, results in runs.items()}


def off_the_quarter_turn(runs: Mapping[str, list[Result]]) -> dict[str, float]:
    """Return the mean distance of the range of the rotation from a quarter turn, by label."""
    return {
        label: mean(abs(size - pi / 2) for size in learned_ranges(results, "rotation"))
        for label, results in runs.items()
    }


def _table(runs: Mapping[str, list[Result]], published: Mapping[str, float]) -> Table:
    generators = list(dict.fromkeys(name for results in runs.values() for name in results[0]["ranges"]))
    rows = []
    for label, results in runs.items():
        accuracy = spread(accuracies(results), 1) + (f" ({published[label]:.1f})" if label in published else "")
        has = results[0]["ranges"]
        ranges = [spread(learned_ranges(results, name)) if name in has else "–" for name in generators]
        rows.append([label, accuracy, spread(evidences(results)), *ranges])
    beside = " (the paper's)" if published else ""
    return Table(
        "Test accuracy in percent, evidence in nats per training image, and ranges in the end",
        ["way", f"accuracy{beside}", "evidence", *generators],
        rows,
    )


def _figure_of(runs: Mapping[str, list[Result]], version: str) -> "Callable[[], Figure]":
    shown = {label: results for label, results in runs.items() if results[0]["ranges"]}

    def draw() -> "Figure":
        figure = new_figure(3.3 * len(shown) + 0.8, 3.2)
        columns: Sequence[str] = list(shown)
        all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
        truth = true_ranges(version, tuple(shown[columns[0]][0]["shape"]))
        reached = [size for runs in shown.values() for sizes in runs[0]["history"]["ranges"].values() for size in sizes]
        top = 1.05 * min(max(*reached, *truth.values(), 0.1), _TOP)
        for axes, label in zip(all_axes, columns, strict=True):
            first = shown[label][0]
            last = label == columns[-1]
            plot_trajectories(axes, history_rows(first), truth, labels=last, top=top)
            axes.set_title(label, fontsize=11, loc="left")
            axes.set_ylabel("range" if label == columns[0] else "")
        return figure

    return draw
