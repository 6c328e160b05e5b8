"""What experiments that compare a handful of trainings on one data set have in common."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import pi
from statistics import mean
from typing import TYPE_CHECKING

from lila.data.transformed import true_ranges
from lila.reproduce.engine.experiment import (
    Cell,
    Experiment,
    Scale,
    Summary,
    Verdict,
    accuracies,
    evidences,
    learned,
    over_seeds,
    records,
)
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Job, Result
from lila.results.plots import plot_trajectories
from lila.results.plots.style import new_figure
from lila.results.tables import Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_TOP = 3.5  # a range beyond a half turn, or a factor of 30, has run away and may leave the picture


class Comparison(Experiment):
    """Several ways to train on one version of one data set, listed apart by a label each."""

    @abstractmethod
    def trainings(self, scale: Scale) -> dict[str, Training]:
        """The ways by their label, but for the seed."""

    @abstractmethod
    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        """On the claims, from the runs by label."""

    def remarks(self, runs: Mapping[str, list[Result]]) -> list[str]:
        """What a reader should know besides."""
        return []

    def accuracy_of_paper(self) -> Mapping[str, float]:
        """Test accuracy by label, where the paper gives it."""
        return {}

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (label, seed): training.but(seed=seed).job()
            for seed in range(seeds)
            for label, training in self.trainings(scale).items()
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        runs = {str(cell[0]): of_seeds for cell, of_seeds in over_seeds(results).items()}
        version = next(iter(self.trainings(scale).values())).version
        flat = [
            {"way": cell[0], "seed": cell[1], "epoch": record.epoch}
            | dict(record.ranges)
            | {"accuracy in the end": result["test"]["accuracy"], "evidence in the end": result["evidence"]["value"]}
            for cell, result in results.items()
            for record in records(result)
        ]
        table = _table(runs, self.accuracy_of_paper())
        figures = {self.name: _figure_of(runs, version)}
        return Summary([table], self.verdicts(runs, scale), figures, flat, self.remarks(runs))


def better(claim: str, value: Callable[[list[Result]], list[float]], high: list[Result], low: list[Result]) -> Verdict:
    """That the mean of a value is higher in some runs than in others."""
    one, two = mean(value(high)), mean(value(low))
    return Verdict(claim, one > two, f"{one:.2f} and {two:.2f}")


def rotations(runs: Mapping[str, list[Result]]) -> dict[str, float]:
    """The mean range of the rotation by label."""
    return {label: mean(learned(of_label, "rotation")) for label, of_label in runs.items()}


def off_the_quarter_turn(runs: Mapping[str, list[Result]]) -> dict[str, float]:
    """How far the range of the rotation is from a quarter turn, on average, by label."""
    return {label: mean(abs(r - pi / 2) for r in learned(of_label, "rotation")) for label, of_label in runs.items()}


def _table(runs: Mapping[str, list[Result]], of_paper: Mapping[str, float]) -> Table:
    generators = list(dict.fromkeys(name for of_label in runs.values() for name in of_label[0]["ranges"]))
    rows = []
    for label, of_label in runs.items():
        accuracy = spread(accuracies(of_label), 1) + (f" ({of_paper[label]:.1f})" if label in of_paper else "")
        ranges = [spread(learned(of_label, name)) if name in of_label[0]["ranges"] else "–" for name in generators]
        rows.append([label, accuracy, spread(evidences(of_label)), *ranges])
    beside = " (the paper's)" if of_paper else ""
    return Table(
        "Test accuracy in percent, evidence in nats per training image, and ranges in the end",
        ["way", f"accuracy{beside}", "evidence", *generators],
        rows,
    )


def _figure_of(runs: Mapping[str, list[Result]], version: str) -> "Callable[[], Figure]":
    shown = {label: of_label for label, of_label in runs.items() if of_label[0]["ranges"]}

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
            plot_trajectories(axes, records(first), truth, labels=last, top=top)
            axes.set_title(label, fontsize=11, loc="left")
            axes.set_ylabel("range" if label == columns[0] else "")
        return figure

    return draw
