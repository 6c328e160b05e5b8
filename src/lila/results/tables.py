"""Tables for people: as text, Markdown and CSV, with means over seeds and their standard errors."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from lila._util.spreadsheets import safe_cell


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        title: of the table.
        columns: names of the columns.
        rows: one text per column each.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Return the table as text, with columns of equal width."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [
            "  ".join(entry.ljust(width) for entry, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.columns, ["-" * width for width in widths], *self.rows)
        ]
        return "\n".join([self.title, *lines])

    def markdown(self) -> str:
        """Return a Markdown table under its title."""
        rows = [" | ".join(row) for row in (self.columns, ["---"] * len(self.columns), *self.rows)]
        return "\n".join([self.title, "", *(f"| {row} |" for row in rows)])


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the mean, and its standard error if there are several values."""
    if not values:
        return "–"
    error = f" ±{standard_error(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{error}"


def gain(ours: Sequence[float], theirs: Sequence[float], digits: int) -> str:
    """Return by how much ours exceed theirs, seed by seed: the mean difference and its standard error."""
    sign = "+" if mean(ours) >= mean(theirs) else ""
    return sign + spread([one - other for one, other in zip(ours, theirs, strict=True)], digits)


def listed(values: Mapping[str, float], digits: int = 2) -> str:
    """Return values with their labels as one line."""
    return ", ".join(f"{label} {value:.{digits}f}" for label, value in values.items())


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; 0 for a single value, of which nothing is known."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV, with the union of their columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writerow({name: safe_cell(name) for name in names})
    writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()
