"""What a comparison found: a table for terminals, a page in Markdown with a picture, and one in HTML."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from shlex import quote
from statistics import mean
from typing import TYPE_CHECKING, Any

from lila._util.files import replaced
from lila.augment import Affine2d
from lila.compare.registry import REFERENCE, SYSTEMS
from lila.compare.runner import Entry
from lila.compare.system import Conditions, System
from lila.reproduce.engine.store import rounded
from lila.results.plots.style import COLOURS, INK, new_figure, plain_axes, save
from lila.results.tables import Table, spread
from lila.training.checkpoint import write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CHANGED = 0.2  # of the true range, the difference from which on 1/η changes an answer
_NO = "–"
_MARKERS = "osD^"
_TICKS = [first * 10.0**power for power in range(-2, 4) for first in (1, 2, 5)]


@dataclass(frozen=True)
class Row:
    """What is known of a system over all seeds.

    Attributes:
        system: the system.
        entries: its results, one per seed.
        inverse: its result with ranges written as 1 / eta; None if it was not asked.
        times: its time in units of lila's, for each seed.
    """

    system: System
    entries: Sequence[Entry]
    inverse: Entry | None
    times: Sequence[float]

    def ranges(self, name: str) -> list[float]:
        """Return the range of a generator for each seed; none if the system has no ranges."""
        return [entry.found.ranges[name] for entry in self.entries if entry.found.ranges]

    def accuracies(self) -> list[float]:
        """Return the test accuracy in percent for each seed."""
        return [100 * entry.found.accuracy for entry in self.entries]


@dataclass(frozen=True)
class Comparison:
    """A comparison with all its results.

    Attributes:
        conditions: those of the first seed.
        rows: a row per system.
        seeds: the number of seeds.
    """

    conditions: Conditions
    rows: Sequence[Row]
    _: KW_ONLY
    seeds: int

    @classmethod
    def of(
        cls, conditions: Conditions, systems: Sequence[System], entries: Sequence[Entry], seeds: int
    ) -> "Comparison":
        """Gather the results of each system."""
        plain = {(entry.system, entry.seed): entry for entry in entries if not entry.inverse}
        inverse = {entry.system: entry for entry in entries if entry.inverse}
        unit = [plain[REFERENCE, seed].found.seconds for seed in range(seeds)]
        rows = []
        for system in systems:
            own = [plain[system.name, seed] for seed in range(seeds)]
            times = [entry.found.seconds / seconds for entry, seconds in zip(own, unit, strict=True)]
            rows.append(Row(system, own, inverse.get(system.name), times))
        return cls(conditions, rows, seeds=seeds)

    @property
    def moved(self) -> dict[str, float]:
        """The generators by which the images were transformed, with their ranges."""
        return {name: size for name, size in self.conditions.truth.items() if size}

    def inverse_answer(self, row: Row) -> str:
        """Say whether a system finds another range when it is written as 1 / eta, and which."""
        if row.inverse is None or row.inverse.found.ranges is None:
            return _NO
        first, found = row.entries[0].found.ranges, row.inverse.found.ranges
        assert first is not None
        changed = any(abs(found[name] - first[name]) > _CHANGED * size for name, size in self.moved.items())
        values = ", ".join(self.readable(name, found[name]) for name in self.moved)
        return f"{'yes' if changed else 'no'} ({values})"

    def readable(self, name: str, value: float) -> str:
        """Write a range for people to read."""
        return Affine2d().readable(name, value, self.conditions.task.shape)

    def table(self) -> Table:
        """Return the table of all systems."""
        moved, unmoved = self.moved, [name for name, size in self.conditions.truth.items() if not size]
        columns = ["system", *(f"{name} ({self.readable(name, size)})" for name, size in moved.items())]
        columns += ["largest other range", "accuracy, %", "log-likelihood", "time / lila's", "held-out data"]
        columns += ["several runs", "1/η changes it (range found)"]
        rows = []
        for row in self.rows:
            sizes = [self.readable(name, mean(row.ranges(name))) if row.ranges(name) else _NO for name in moved]
            others = {name: mean(row.ranges(name)) for name in unmoved if row.ranges(name)}
            largest = max(others, key=lambda name: others[name], default=None)
            scores = [entry.found.log_likelihood for entry in row.entries]
            rows.append(
                [
                    row.system.title,
                    *sizes,
                    _NO if largest is None else f"{others[largest]:.2f}, {largest}",
                    spread(row.accuracies(), 1),
                    spread(scores, 3),
                    spread(row.times, 2),
                    "yes" if row.system.needs_validation else "no",
                    "yes" if row.system.several_runs else "no",
                    self.inverse_answer(row),
                ]
            )
        return Table(self.title, columns, rows)

    @property
    def title(self) -> str:
        """The data and the number of seeds, in a sentence without its full stop."""
        recipe = self.conditions.task.recipe
        plural = "s" if self.seeds > 1 else ""
        return (
            f"{recipe.source}, {recipe.transform}, {self.conditions.task.examples[0]} images, {self.seeds} seed{plural}"
        )

    def text(self) -> str:
        """Return the table as text, for a terminal."""
        return self.table().text()

    def command(self) -> str:
        """Return the command that makes this comparison again, from data that is found in the same way."""
        shared, recipe = self.conditions, self.conditions.task.recipe
        names = [row.system.name for row in self.rows]
        some = "" if names == list(SYSTEMS) else f" --systems {','.join(names)}"
        inverse = "" if any(row.inverse for row in self.rows) else " --no-inverse"
        subset = f" --subset {recipe.subset}" if recipe.subset else ""
        width = f" --width {shared.width}" if shared.model == "mlp" else ""
        return (
            f"lila compare {quote(recipe.source)} --transform {recipe.transform}{subset} --seeds {self.seeds} --model "
            f"{shared.model}{width} --epochs {shared.epochs} --batch-size {shared.batch_size} --samples "
            f"{shared.samples} --threads {self.threads}{some}{inverse}"
        )

    @property
    def threads(self) -> int:
        """The number of threads with which the systems were measured."""
        return max(entry.made["threads"] for row in self.rows for entry in row.entries)

    def settings(self) -> str:
        """Say what all systems shared, and what the times are."""
        shared, made = self.conditions, [entry.made for row in self.rows for entry in row.entries]
        sessions, machines = len({one["session"] for one in made}), {(one["machine"], one["torch"]) for one in made}
        units = ", ".join(f"{entry.found.seconds:.1f} s" for entry in self.rows[0].entries)
        network = f"{shared.model} with {shared.width} hidden units" if shared.model == "mlp" else shared.model
        return (
            f"All systems: {network}, {shared.epochs} epochs in batches of {shared.batch_size}, "
            f"{shared.samples} views of an image in predictions and hyper-steps, {shared.weight_samples} in a step of "
            f"the weights; the Gaussian process has no network. Held-out data is {shared.validation_share:.0%} of the "
            f"training images. Times are CPU seconds of training, in units of lila's ({units}), "
            f"{' and '.join(f'{machine}, PyTorch {torch}' for machine, torch in sorted(machines))}, "
            f"threads: {self.threads}, processes that measured: {sessions}. 1/η is asked with "
            f"seed 0, with ranges that start at 0.1; it changes the answer if a range of the data comes out "
            f"differently by more than {_CHANGED:.0%} of its true value."
        )

    def papers(self) -> list[str]:
        """Return a line per system that says where it comes from."""
        return [f"{row.system.title}: {row.system.paper}" for row in self.rows]

    def data(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "command": self.command(),
            "truth": self.conditions.truth,
            "settings": self.conditions.described(),
            "systems": [
                {
                    "name": row.system.name,
                    "title": row.system.title,
                    "paper": row.system.paper,
                    "needs_validation": row.system.needs_validation,
                    "several_runs": row.system.several_runs,
                    "time_ratios": list(row.times),
                    "results": [asdict(entry) for entry in row.entries],
                    "inverse": None if row.inverse is None else asdict(row.inverse),
                }
                for row in self.rows
            ],
        }

    def figure(self) -> "Figure":
        """Draw test accuracy against time; a filled mark is a system that needs training data and a single run."""
        figure = new_figure(9.0, 4.6)
        axes = figure.subplots()
        for number, row in enumerate(self.rows):
            time, accuracy, colour = mean(row.times), mean(row.accuracies()), COLOURS[number % len(COLOURS)]
            alone = not (row.system.needs_validation or row.system.several_runs)
            style: dict[str, Any] = {"facecolors": colour if alone else "none", "edgecolors": colour, "linewidths": 1.5}
            marker = _MARKERS[number // len(COLOURS) % len(_MARKERS)]
            axes.scatter(time, accuracy, s=48, marker=marker, label=row.system.title, **style)
        axes.set_xscale("log")
        lowest, highest = (one(mean(row.times) for row in self.rows) for one in (min, max))
        ticks = [tick for tick in _TICKS if lowest / 2 <= tick <= 2 * highest]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("time, in units of lila's", color=INK)
        axes.set_ylabel("test accuracy, %", color=INK)
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)
        plain_axes(axes)
        return figure


def markdown(comparison: Comparison) -> str:
    """Return the page in Markdown."""
    parts = [
        "# Comparison with related systems",
        comparison.table().markdown(),
        "![Test accuracy against training time, a mark per system](comparison.png)",
        "Filled marks need training data alone and a single run.",
        comparison.settings(),
        f"    {comparison.command()}",
        "\n".join(f"- {line}" for line in comparison.papers()),
    ]
    return "\n\n".join(parts) + "\n"


def html(comparison: Comparison) -> str:
    """Return the page in HTML, with its picture inside and in the style of lila's reports."""
    from lila.results.report.page import page_templates

    written = io.BytesIO()
    save(comparison.figure(), written, "png", dpi=140)
    content: Mapping[str, Any] = {
        "table": comparison.table(),
        "picture": f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}",
        "settings": comparison.settings(),
        "command": comparison.command(),
        "papers": comparison.papers(),
    }
    return page_templates("lila.compare").get_template("comparison.html").render(content)


def write_pages(comparison: Comparison, folder: Path) -> None:
    """Write both pages, the picture and the data into a folder; each file is replaced as a whole."""
    write_json(folder / "comparison.json", rounded(comparison.data()))
    figure = comparison.figure()
    with replaced(folder / "comparison.png") as temporary:
        save(figure, temporary, "png", dpi=140)
    for name, content in (("comparison.md", markdown(comparison)), ("comparison.html", html(comparison))):
        with replaced(folder / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
