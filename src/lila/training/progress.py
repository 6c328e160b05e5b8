"""Telling how a run goes: a live table in a terminal, plain lines elsewhere, nothing on request."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table


class ProgressName(StrEnum):
    """The ways of telling."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    SILENT = "silent"


class Progress(Protocol):
    """Told of each epoch's record."""

    def __call__(self, record: dict[str, Any]) -> None:
        """Show a record."""


@contextmanager
def telling(name: ProgressName, epochs: int, console: Console | None = None) -> Iterator[Progress]:
    """A way of telling, open while the run lasts.

    Args:
        name: which; AUTO is LIVE in a terminal and LINES elsewhere.
        epochs: of the whole run.
        console: where to tell it; standard output if None.
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


def facts(record: dict[str, Any], epochs: int) -> dict[str, str]:
    """What there is to tell of an epoch, as text by name."""
    told = {"epoch": f"{record['epoch']}/{epochs}", "loss": f"{record['loss']:.4f}"}
    if "accuracy" in record:
        told["accuracy"] = f"{record['accuracy']:.1%}"
    if "evidence" in record:
        terms = record["evidence"]
        told["evidence"] = (
            f"{terms['value']:.1f} = {terms['log_likelihood']:.1f} {terms['weight_penalty']:+.1f} "
            f"{terms['occam_factor']:+.1f}"
        )
    told |= record["readable_ranges"]
    seconds = round(sum(record["seconds"].values()) * (epochs - record["epoch"]))
    told["left"] = f"{seconds // 60} min {seconds % 60:02} s"
    return told


def line(record: dict[str, Any], epochs: int) -> str:
    """An epoch in one line."""
    return "  ".join(f"{name} {text}" for name, text in facts(record, epochs).items())


def table(record: dict[str, Any], epochs: int) -> Table:
    """An epoch as a table of two columns."""
    made = Table(show_header=False, box=None, pad_edge=False)
    for name, text in facts(record, epochs).items():
        made.add_row(name, text)
    return made
