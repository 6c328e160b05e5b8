"""Seconds per epoch of the weights and per hyper-step, by network and method."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.paper import published
from lila.reproduce.paper.plans import plan
from lila.results.plots.style import COLOURS, INK, new_figure, plain_axes
from lila.results.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NETWORKS = (("cifar10", "resnet-8-8"), ("fashion-mnist", "cnn"), ("mnist", "mlp"))
_METHODS: dict[str, dict[str, Any]] = {
    "non-invariant": {"method": "non-invariant"},
    "augerino": {"method": "augerino"},
    "lila, exact": {"passes": "exact"},
    "lila, empirical Fisher": {"passes": "exact", "curvature": "ef"},
    "lila, probed": {"passes": "probed"},
    "lila, sampled": {"passes": "sampled"},
}
_IMAGES = {Scale.SMALL: 300, Scale.PAPER: None}
_SETTINGS: dict[str, Any] = {"epochs": 4, "burn_in": 1, "hyper_every": 1, "samples": 11}
_AFTER_EPOCHS: dict[str, Any] = {
    "passes": "probed",
    "noise": "independent",
    "batch_size": 50,
    "weight_samples": None,
    "arithmetic": "full",
}
"""What differs from the plans of the small scale, as here hyper-steps follow an epoch, as in the paper."""


class Timing(Experiment):
    """Seconds of epochs and hyper-steps."""

    name = "timing"
    title = "Seconds per epoch and per hyper-step by network and method, S = 11 (appendix)"
    claim = (
        "An epoch costs the same for lila and Augerino; a hyper-step costs many epochs, fewer by the empirical Fisher."
    )
    reproduced_if = (
        "for each network an epoch of lila takes at most 1.3 times Augerino's, and a hyper-step by the empirical "
        "Fisher less than one by the exact GGN"
    )
    small_seeds = paper_seeds = 1
    alone = True

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (model, name, seed): _short(plan(data, model, scale), scale).changed(seed=seed, **changes).job()
            for seed in range(seeds)
            for data, model in _NETWORKS
            for name, changes in _METHODS.items()
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        times = {cell: _seconds(runs) for cell, runs in group_seeds(results).items()}
        table_rows, rows = [], []
        for (model, name), (epoch, hyper) in times.items():
            steps = "–" if hyper is None else f"{hyper:.2f}"
            ratio = "–" if hyper is None else f"{hyper / epoch:.1f}"
            table_rows.append([str(model), str(name), f"{epoch:.3f}", steps, ratio, _published(str(model), str(name))])
            rows.append({"network": model, "method": name, "epoch": epoch, "hyper-step": hyper})
        table = Table(
            "Median seconds",
            ["network", "method", "epoch", "hyper-step", "hyper-step / epoch", "the paper's, on an A30"],
            table_rows,
        )
        verdicts = [v for _, model in _NETWORKS for v in _verdicts(model, times)]
        return Summary([table], verdicts, figures={self.name: lambda: _figure(times)}, rows=rows)


def _short(training: Training, scale: Scale) -> Training:
    changes = _SETTINGS | _AFTER_EPOCHS if scale is Scale.SMALL else _SETTINGS
    return replace(training.changed(**changes), subset=_IMAGES[scale])


def _seconds(runs: list[Result]) -> tuple[float, float | None]:
    """Return the median seconds of an epoch, without the first, and of a hyper-step; None if there is none."""
    histories = [run["history"] for run in runs]
    epochs = [value for history in histories for value in history["seconds"]["weights"][1:]]
    steps = [
        seconds
        for history in histories
        for seconds, evidence in zip(history["seconds"]["hyper"], history["evidence"]["value"], strict=True)
        if evidence is not None
    ]
    return median(epochs), median(steps) if steps else None


def _published(model: str, name: str) -> str:
    given = published.SECONDS[model]
    if name == "non-invariant":
        return f"epoch {given['plain epoch']}"
    if name == "augerino":
        return f"epoch {given['epoch']}"
    step = {"lila, exact": "hyper-step, GGN", "lila, empirical Fisher": "hyper-step, empirical Fisher"}.get(name)
    return "–" if step is None else f"epoch {given['epoch']}, hyper-step {given[step]}"


def _verdicts(model: str, times: Mapping[Cell, tuple[float, float | None]]) -> list[Verdict]:
    ours, theirs = times[model, "lila, exact"], times[model, "augerino"]
    fisher = times[model, "lila, empirical Fisher"]
    assert ours[1] is not None
    assert fisher[1] is not None
    ratio = ours[0] / theirs[0]
    return [
        Verdict(f"{model}: an epoch costs lila no more than Augerino", ratio < 1.3, f"ratio {ratio:.2f}"),
        Verdict(
            f"{model}: the empirical Fisher makes a hyper-step cheaper",
            fisher[1] < ours[1],
            f"{fisher[1] / fisher[0]:.1f} epochs in place of {ours[1] / ours[0]:.1f}",
        ),
    ]


def _figure(times: Mapping[Cell, tuple[float, float | None]]) -> "Figure":
    figure = new_figure(7.5, 3.2)
    axes = figure.subplots()
    names = [name for name in _METHODS if name.startswith("lila")]
    for i, name in enumerate(names):
        at = [position + 0.2 * (i - 1.5) for position in range(len(_NETWORKS))]
        ratios = [(times[model, name][1] or 0.0) / times[model, name][0] for _, model in _NETWORKS]
        axes.bar(at, ratios, 0.19, color=COLOURS[i], label=name)
    given = [published.SECONDS[model] for _, model in _NETWORKS]
    theirs = [seconds["hyper-step, GGN"] / seconds["epoch"] for seconds in given]
    left, right = ([position + 0.4 * side for position in range(len(theirs))] for side in (-1, 1))
    axes.hlines(theirs, left, right, colors=INK, lw=1.5, label="the paper's, GGN")
    axes.set_xticks(range(len(_NETWORKS)), [model for _, model in _NETWORKS])
    axes.set(ylabel="hyper-step, in epochs")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    plain_axes(axes)
    return figure
