"""The progress of a run: a live table with a bar in a terminal, rows of a table elsewhere, nothing on request."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from time import perf_counter
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from lila.training.forecast import readable_seconds
from lila.training.history import EpochRecord

_HEADER_EVERY = 20  # rows
_SHOWN = 3  # ranges in a row
_REFRESH = 0.2  # seconds from one drawing of the bar to the next, at least
_WIDTHS = {"epoch": 9, "loss": 8, "accuracy": 9, "evidence": 9, "fit": 8, "complexity": 11, "left": 13}


class ProgressName(StrEnum):
    """The ways to display progress."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    SILENT = "silent"


class Display(Protocol):
    """Displays the progress of a run."""

    def epoch(self, record: EpochRecord) -> None:
        """Display an epoch that is done, and the time that is left."""

    def within(self, share: float) -> None:
        """Display the share of the present epoch's batches that is done."""


@contextmanager
def displayed_progress(
    name: ProgressName,
    epochs: int,
    examples: int,
    left: Callable[[], float] | None = None,
    *,
    console: Console | None = None,
) -> Iterator[Display]:
    """Open a display for as long as a run lasts.

    Args:
        name: the way to display progress; AUTO is LIVE in a terminal and LINES elsewhere.
        epochs: of the whole run.
        examples: the number of training examples.
        left: returns the seconds that are left; nothing is said of them if None.
        console: where to display it; standard output if None.
    """
    console = console or Console(file=sys.stdout)
    if name is ProgressName.AUTO:
        name = ProgressName.LIVE if console.is_terminal else ProgressName.LINES
    if name is ProgressName.LIVE:
        with Live(console=console, auto_refresh=False) as live:
            yield LiveTable(live, epochs, examples, left)
    elif name is ProgressName.LINES:
        yield Rows(console, epochs, examples, left)
    else:
        yield SILENCE


class Silence:
    """Displays nothing."""

    def epoch(self, record: EpochRecord) -> None:
        """Display nothing."""

    def within(self, share: float) -> None:
        """Display nothing."""


SILENCE = Silence()


class Rows:
    """Writes a row of a table for each epoch, and the names of the columns now and then.

    Args:
        console: where to write.
        epochs: of the whole run.
        examples: the number of training examples.
        left: returns the seconds that are left.
    """

    def __init__(self, console: Console, epochs: int, examples: int, left: Callable[[], float] | None) -> None:
        self._console, self._epochs, self._examples, self._left = console, epochs, examples, left
        self._rows = 0

    def epoch(self, record: EpochRecord) -> None:
        """Write a row."""
        if self._rows % _HEADER_EVERY == 0:
            self._write(header())
        self._rows += 1
        self._write(row(record, self._epochs, self._examples, _readable(self._left)))

    def within(self, share: float) -> None:
        """Write nothing: a row is of a whole epoch."""

    def _write(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class LiveTable:
    """Renews a table of two columns after each epoch, and a bar within it.

    Args:
        live: what is renewed.
        epochs: of the whole run.
        examples: the number of training examples.
        left: returns the seconds that are left.
    """

    def __init__(self, live: Live, epochs: int, examples: int, left: Callable[[], float] | None) -> None:
        self._live, self._epochs, self._examples, self._left = live, epochs, examples, left
        self._facts: dict[str, str] = {}
        self._drawn = 0.0

    def epoch(self, record: EpochRecord) -> None:
        """Renew the table."""
        self._facts = facts(record, self._epochs, self._examples, _readable(self._left))
        self._draw(None)

    def within(self, share: float) -> None:
        """Renew the bar, unless it was renewed a moment ago."""
        if perf_counter() - self._drawn >= _REFRESH:
            self._draw(share)

    def _draw(self, share: float | None) -> None:
        made = Table(show_header=False, box=None, pad_edge=False)
        for name, text in self._facts.items():
            made.add_row(name, text)
        if share is not None:
            made.add_row("now", ProgressBar(total=1.0, completed=share, width=40))
        self._live.update(made, refresh=True)
        self._drawn = perf_counter()


def _readable(left: Callable[[], float] | None) -> str:
    return "-" if left is None else readable_seconds(left())


def facts(record: EpochRecord, epochs: int, examples: int, left: str) -> dict[str, str]:
    """Return what is displayed of an epoch in a terminal, as text by name."""
    texts = {"epoch": f"{record.epoch}/{epochs}", "loss": f"{record.loss:.4f}"}
    if record.accuracy is not None:
        texts["accuracy"] = f"{record.accuracy:.1%}"
    if record.evidence is not None:
        texts["evidence"] = record.evidence.per_example(examples).removeprefix("evidence ")
    return texts | dict(record.readable_ranges) | {"left": left}


def header() -> str:
    """Return the names of the columns of a row."""
    return "".join(name.rjust(width) for name, width in _WIDTHS.items()) + "  largest ranges"


def row(record: EpochRecord, epochs: int, examples: int, left: str) -> str:
    """Return an epoch as a row of a table; the evidence is in nats per example."""
    e = record.evidence
    texts = {
        "epoch": f"{record.epoch}/{epochs}",
        "loss": f"{record.loss:.4f}",
        "accuracy": "-" if record.accuracy is None else f"{record.accuracy:.1%}",
        "evidence": "-" if e is None else f"{e.value / examples:.3f}",
        "fit": "-" if e is None else f"{e.log_likelihood / examples:.3f}",
        "complexity": "-" if e is None else f"{-e.complexity / examples:.3f}",
        "left": left,
    }
    largest = sorted(record.readable_ranges, key=lambda name: -record.ranges.get(name, 0.0))[:_SHOWN]
    ranges = ", ".join(f"{name} {record.readable_ranges[name]}" for name in largest)
    return ("".join(texts[name].rjust(width) for name, width in _WIDTHS.items()) + f"  {ranges}").rstrip()
