"""The two tables of test accuracy and evidence, by data set, network, method and version of the data."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.jobs import Job, Result
from lila.reproduce.engine.results import accuracies, evidences
from lila.reproduce.paper import published
from lila.reproduce.paper.plans import (
    DATA_VERSIONS,
    NETWORKS,
    networks_of,
    plan,
    seeds_by_network,
    seeds_of,
    versions_in,
    versions_of,
)
from lila.results.plots.style import COLOURS, new_figure, plain_axes
from lila.results.tables import Table, gain, spread, standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("non-invariant", "augerino", "lila")
_TRANSFORMED = DATA_VERSIONS[:-1]
_PARTIAL = DATA_VERSIONS[1:-1]
_COLUMNS = ["data", "network", "method", *(version.value for version in DATA_VERSIONS)]


class Accuracy(Experiment):
    """Test accuracy and evidence of all networks by all methods."""

    name = "accuracy"
    title = "Test accuracy and evidence by data set, network, method and version (both tables)"
    claim = "lila predicts better, and has more evidence, than the non-invariant network, and mostly beats Augerino."
    reproduced_if = (
        "for a network and data set the mean test accuracy of lila is above that of the non-invariant network on all "
        "four transformed versions, and above Augerino's on the partially rotated, translated and scaled ones; and its "
        "evidence is above the non-invariant network's on all five"
    )
    small_seeds = 1
    scales = tuple(Scale)

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (data, model, method, version.value, seed): plan(data, model, scale, method)
            .changed(version.value, seed=seed)
            .job()
            for data, model in _networks(scale)
            for seed in seeds_of(model, scale, seeds)
            for method in METHODS
            for version in versions_of(model, scale)
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        cells = group_seeds(results)
        networks = networks_of(cells)
        verdicts = [v for data, model in networks for v in _verdicts(data, model, cells)]
        rows = [
            dict(zip(("data", "network", "method", "version", "seed"), cell, strict=True))
            | {"accuracy": result["test"]["accuracy"], "evidence": result["evidence"]["value"]}
            | {"test log-likelihood": result["test"]["log_likelihood"]}
            | {"calibration error": result["test"]["calibration_error"]}
            for cell, result in results.items()
        ]
        accuracy = _rows(cells, METHODS, values=accuracies, published_values=_published_accuracies(), digits=1)
        by_evidence = ("non-invariant", "lila")
        evidence = _rows(cells, by_evidence, values=evidences, published_values=_published_evidences(), digits=2)
        tables = [
            Table("Test accuracy in percent (the paper's)", _COLUMNS, accuracy),
            Table("Evidence in nats per training image (the paper's)", _COLUMNS, evidence),
        ]
        figures = {"accuracy": lambda: _figure(networks, cells)}
        return Summary(tables, verdicts, figures=figures, rows=rows, remarks=seeds_by_network(cells))


def _networks(scale: Scale) -> list[tuple[str, str]]:
    """Return data sets and networks; the small scale leaves out CIFAR-10, which is too large for it."""
    return [(data, model) for data, model in NETWORKS[scale] if scale is not Scale.SMALL or data != "cifar10"]


def _published_accuracies() -> dict[Cell, float]:
    """Return the paper's test accuracies in percent, by data set, network, method and version."""
    return {
        (data, model, method, version.value): values[i]
        for (data, model), by_method in published.ACCURACY.items()
        for method, values in by_method.items()
        for i, version in enumerate(DATA_VERSIONS)
    }


def _published_evidences() -> dict[Cell, float]:
    """Return the paper's evidence in nats per training image, by data set, network, method and version."""
    return {
        (data, model, method, version.value): 1000 * values[i] / published.TRAINING_IMAGES[data]
        for (data, model), by_method in published.EVIDENCE.items()
        for method, values in by_method.items()
        for i, version in enumerate(DATA_VERSIONS)
    }


def _rows(
    cells: Mapping[Cell, list[Result]],
    methods: Sequence[str],
    *,
    values: Callable[[list[Result]], list[float]],
    published_values: Mapping[Cell, float],
    digits: int,
) -> list[list[str]]:
    """Return a row per network and method, with a measured and a published value per version of the data."""
    rows = []
    for data, model in networks_of(cells):
        for method in methods:
            row = [data, model, method]
            for version in DATA_VERSIONS:
                cell = (data, model, method, version.value)
                measured = f"{spread(values(cells[cell]), digits)} " if cell in cells else ""
                row.append(f"{measured}({published_values[cell]:.{digits}f})")
            rows.append(row)
    return rows


def _verdicts(data: str, model: str, cells: Mapping[Cell, list[Result]]) -> list[Verdict]:
    made, present = [], versions_in(cells, data, model)
    for text, rival, versions, value in (
        ("more accurate than the non-invariant network on transformed data", "non-invariant", _TRANSFORMED, accuracies),
        ("more accurate than Augerino on partial transformations", "augerino", _PARTIAL, accuracies),
        ("more evidence than the non-invariant network", "non-invariant", DATA_VERSIONS, evidences),
    ):
        both = {
            version.value: (value(cells[data, model, "lila", version]), value(cells[data, model, rival, version]))
            for version in versions
            if version in present
        }
        found = ", ".join(f"{version} {gain(ours, theirs, 2)}" for version, (ours, theirs) in both.items())
        held = all(mean(ours) > mean(theirs) for ours, theirs in both.values())
        made.append(Verdict(f"{model} on {data}: {text}", held, found))
    return made


def _figure(networks: Sequence[tuple[str, str]], cells: Mapping[Cell, list[Result]]) -> "Figure":
    figure = new_figure(3.2 * len(networks), 3.2)
    for axes, (data, model) in zip(figure.subplots(1, len(networks), squeeze=False)[0], networks, strict=True):
        versions = versions_in(cells, data, model)
        for i, method in enumerate(METHODS):
            values = [accuracies(cells[data, model, method, version.value]) for version in versions]
            at = [position + 0.27 * (i - 1) for position in range(len(versions))]
            errors = [standard_error(v) for v in values]
            axes.bar(
                at, [mean(v) for v in values], 0.25, yerr=errors, color=COLOURS[i * 2], label=method, ecolor="#444"
            )
        lowest = min(mean(accuracies(cells[data, model, m, v.value])) for m in METHODS for v in versions)
        axes.set_ylim(max(0, lowest - 10), 100 if lowest > 50 else None)
        axes.set_xticks(range(len(versions)), [version.value for version in versions], rotation=35, ha="right")
        axes.set_title(f"{data}, {model}", fontsize=11, loc="left")
        plain_axes(axes)
    figure.axes[0].set_ylabel("test accuracy, percent")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    return figure
