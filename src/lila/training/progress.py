"""The progress of a run: a live table with a bar in a terminal, rows of a table elsewhere, nothing on request."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from lila.training.forecast import readable_seconds
from lila.training.history import EpochRecord
from lila.training.progress_rows import Columns

_HEADER_EVERY = 40  # rows
_REFRESH = 0.2  # seconds from one drawing of the bar to the next, at least


class ProgressName(StrEnum):
    """The ways to display progress."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    SILENT = "silent"


@dataclass(frozen=True)
class WholeRun:
    """The run whose epochs are displayed.

    Attributes:
        epochs: the number of epochs of the whole run.
        examples: the number of training examples.
        left: returns the seconds that are left; nothing is said of them if None.
    """

    epochs: int
    examples: int
    left: Callable[[], float] | None = None

    def time_left(self) -> str:
        """Return the time that is left as text."""
        return "-" if self.left is None else readable_seconds(self.left())


class Display:
    """Displays the progress of a run. This one displays nothing."""

    def epoch(self, record: EpochRecord) -> None:
        """Display an epoch that is done, and the time that is left."""

    def within(self, share: float) -> None:
        """Display the share of the present epoch's batches that is done."""


SILENCE = Display()


@contextmanager
def displayed_progress(name: ProgressName, run: WholeRun, console: Console | None = None) -> Iterator[Display]:
    """Open a display for as long as a run lasts.

    Args:
        name: the way to display progress; AUTO is LIVE in a terminal and LINES elsewhere.
        run: the run.
        console: where to display it; standard output if None.
    """
    console = console or Console(file=sys.stdout)
    if name is ProgressName.AUTO:
        name = ProgressName.LIVE if console.is_terminal else ProgressName.LINES
    if name is ProgressName.LIVE:
        with Live(console=console, auto_refresh=False) as live:
            yield LiveTable(live, run)
    else:
        yield Rows(console, run) if name is ProgressName.LINES else SILENCE


class Rows(Display):
    """Writes a row of a table for each epoch, and the names of the columns now and then; evidence in nats per example.

    Args:
        console: where to write.
        run: the run.
    """

    def __init__(self, console: Console, run: WholeRun) -> None:
        self._console, self._run = console, run
        self._rows, self._columns = 0, Columns(())

    def epoch(self, record: EpochRecord) -> None:
        """Write a row."""
        if self._rows % _HEADER_EVERY == 0:
            self._columns = Columns.of(record)
            self._write(self._columns.header())
        self._rows += 1
        texts = _weights(record, self._run) | {"left": self._run.time_left()}
        if record.evidence is not None:
            texts["evidence"] = f"{record.evidence.value / self._run.examples:.3f}"
        self._write(self._columns.row(texts, record))

    def _write(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class LiveTable(Display):
    """Renews a table of two columns after each epoch, and a bar within it.

    Args:
        live: what is renewed.
        run: the run.
    """

    def __init__(self, live: Live, run: WholeRun) -> None:
        self._live, self._run = live, run
        self._facts: dict[str, str] = {}
        self._drawn = 0.0

    def epoch(self, record: EpochRecord) -> None:
        """Renew the table."""
        self._facts = facts(record, self._run)
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


def facts(record: EpochRecord, run: WholeRun) -> dict[str, str]:
    """Return what is displayed of an epoch in a terminal, as text by name."""
    texts = _weights(record, run)
    if record.evidence is not None:
        texts["evidence"] = record.evidence.per_example(run.examples).removeprefix("evidence ")
    return texts | dict(record.readable_ranges) | {"left": run.time_left()}


def _weights(record: EpochRecord, run: WholeRun) -> dict[str, str]:
    """Return what the steps of the weights have led to, as text by name."""
    texts = {"epoch": f"{record.epoch}/{run.epochs}", "loss": f"{record.loss:.4f}"}
    if record.accuracy is not None:
        texts["accuracy"] = f"{record.accuracy:.1%}"
    return texts
