"""Progress as the rows of a table with fixed columns, for logs and pipes: an epoch in a row, a range in a column."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lila.training.history import EpochRecord

_WIDTHS = {"epoch": 8, "loss": 8, "accuracy": 10, "evidence": 10, "left": 13}
_NARROWEST = 9  # characters of a column of ranges, at least
_WIDEST = 120  # characters of a row
_SYMMETRIC = 0.05  # a range of factors a to b is symmetric if a b is 1 up to this, as both are rounded


@dataclass(frozen=True)
class Columns:
    """The columns of the rows that follow a header.

    Attributes:
        ranges: the names of the ranges that have a column.
    """

    ranges: Sequence[str]

    @classmethod
    def of(cls, record: EpochRecord) -> "Columns":
        """Give each range a column, or, where they are too many for a row, the largest of this epoch."""
        largest = sorted(record.readable_ranges, key=lambda name: -record.ranges.get(name, 0.0))
        room, chosen = _WIDEST - sum(_WIDTHS.values()), []
        for name in largest:
            room -= _width(name)
            if room < 0:
                break
            chosen.append(name)
        return cls([name for name in record.readable_ranges if name in chosen])

    def header(self) -> str:
        """Return the names of the columns, in two lines if one of them has two parts, as "x-" and "scale"."""
        widths = _WIDTHS | {name: _width(name) for name in self.ranges}
        first, last = ("".join(_parts(name)[i].rjust(width) for name, width in widths.items()) for i in (0, 1))
        return f"{first.rstrip()}\n{last}" if first.strip() else last

    def row(self, texts: dict[str, str], record: EpochRecord) -> str:
        """Return a row.

        Args:
            texts: what stands in the first columns, by name; "-" where there is nothing.
            record: of the epoch.
        """
        cells = [texts.get(name, "-").rjust(width) for name, width in _WIDTHS.items()]
        cells += [f"  {_short(record.readable_ranges.get(name, '-'))}".rjust(_width(name)) for name in self.ranges]
        return "".join(cells)


def _parts(name: str) -> tuple[str, str]:
    """Return the part of a name before its first hyphen, with it, and the rest."""
    first, hyphen, rest = name.partition("-")
    return (first + hyphen, rest) if rest else ("", first)


def _width(name: str) -> int:
    return max(*map(len, _parts(name)), _NARROWEST) + 2


def _short(text: str) -> str:
    """Return a range of factors that is symmetric, such as "×0.50 to ×2.00", by its upper end alone."""
    found = re.fullmatch(r"×([\d.]+) to (×([\d.]+))", text)
    return found[2] if found and abs(float(found[1]) * float(found[3]) - 1) < _SYMMETRIC else text
