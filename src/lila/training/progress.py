"""The progress of a run: a live table in a terminal, plain lines elsewhere, nothing on request."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from lila.training.history import EpochRecord


class ProgressName(StrEnum):
    """The ways to display progress."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    SILENT = "silent"


class Display(Protocol):
    """Displays epochs."""

    def __call__(self, record: EpochRecord) -> None:
        """Display an epoch."""


@contextmanager
def displayed_progress(name: ProgressName, epochs: int, console: Console | None = None) -> Iterator[Display]:
    """Open a display for as long as a run lasts.

    Args:
        name: the way to display progress; AUTO is LIVE in a terminal and LINES elsewhere.
        epochs: of the whole run.
        console: where to display it; standard output if None.
    """
    console = console or Console(file=sys.stdout)
    if name is ProgressName.AUTO:
        name = ProgressName.LIVE if console.is_terminal else ProgressName.LINES
    if name is ProgressName.LIVE:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda record: live.update(table(record, epochs), refresh=True)
    elif name is ProgressName.LINES:
        yield lambda record: console.print(line(record, epochs), highlight=False, soft_wrap=True)
    else:
        yield lambda record: None


def facts(record: EpochRecord, epochs: int) -> dict[str, str]:
    """Return what is displayed of an epoch, as text by name."""
    texts = {"epoch": f"{record.epoch}/{epochs}", "loss": f"{record.loss:.4f}"}
    if record.accuracy is not None:
        texts["accuracy"] = f"{record.accuracy:.1%}"
    if record.evidence is not None:
        e = record.evidence
        texts["evidence"] = f"{e.value:.1f} = {e.log_likelihood:.1f} {e.weight_penalty:+.1f} {e.occam_factor:+.1f}"
    texts |= record.readable_ranges
    seconds = round(record.seconds.total * (epochs - record.epoch))
    texts["left"] = f"{seconds // 60} min {seconds % 60:02} s"
    return texts


def line(record: EpochRecord, epochs: int) -> str:
    """Return an epoch in one line."""
    return "  ".join(f"{name} {text}" for name, text in facts(record, epochs).items())


def table(record: EpochRecord, epochs: int) -> Table:
    """Return an epoch as a table of two columns."""
    made = Table(show_header=False, box=None, pad_edge=False)
    for name, text in facts(record, epochs).items():
        made.add_row(name, text)
    return made
