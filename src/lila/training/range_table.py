"""The learned ranges beside what is known of their errors, as rows for the summary, the report and the seeds' table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lila.augment.base import Augmentation, Shape
from lila.training.history import EpochRecord, RangeSpread, range_spread


@dataclass(frozen=True)
class RangeRow:
    """A range as people read it.

    Attributes:
        name: of the transformation.
        text: the learned range.
        error: its error bar from the curvature of the evidence, "none" if the evidence is not concave there, or None if
            there are no error bars.
        spread: its standard deviation over the last epochs; None if it is not known.
        share: the range as a share of a very large one.
    """

    name: str
    text: str
    error: str | None
    spread: str | None
    share: float


@dataclass(frozen=True)
class RangeTable:
    """The learned ranges of a run.

    Attributes:
        rows: one for each range.
        notes: what the columns mean, a sentence each; empty if there is nothing beside the ranges.
    """

    rows: Sequence[RangeRow]
    notes: Sequence[str]


def range_table(
    augmentation: Augmentation, shape: Shape, history: Sequence[EpochRecord], errors: Mapping[str, float | None] | None
) -> RangeTable:
    """Return the learned ranges with what is known of their errors.

    Args:
        augmentation: with its learned ranges.
        shape: of an input.
        history: one record per epoch.
        errors: the error bar of each range, None where there is none; None if they are not known.
    """
    spread, shares = range_spread(history), augmentation.shares

    def written(name: str, value: float) -> str:
        return augmentation.readable(name, value, shape)

    rows = []
    for name, text in augmentation.readable_ranges(shape).items():
        error = None if errors is None else errors[name]
        rows.append(
            RangeRow(
                name,
                text,
                error=None if errors is None else "none" if error is None else written(name, error),
                spread=None if spread is None else written(name, spread.deviations[name]),
                share=shares[name],
            )
        )
    return RangeTable(rows, tuple(_notes(errors, spread)) if rows else ())


def _notes(errors: Mapping[str, float | None] | None, spread: RangeSpread | None) -> list[str]:
    notes = []
    if errors is not None:
        notes.append(
            "error: from the curvature of the evidence, with the weights held; moved so far, it falls by ½ nat."
        )
        missing = [name for name, error in errors.items() if error is None]
        if missing:
            notes.append(
                f"error none: the evidence is not concave in {', '.join(missing)} but flat or rising, so that it does "
                f"not determine it there{'' if len(missing) == len(errors) else '; the other errors hold that fixed'}."
            )
    if spread is not None:
        notes.append(f"last epochs: the standard deviation of the range over the last {spread.epochs} epochs.")
    if notes:
        notes.append("The spread over seeds is another thing and may be larger: `lila train --seeds 5` shows it.")
    return notes
