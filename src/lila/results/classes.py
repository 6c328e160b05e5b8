"""Results by class: how many test examples of each class are recognised, and what the others are taken for."""

from collections.abc import Sequence

from lila.results.tables import Table

_MOST = 20  # classes that are shown


def class_tables(confusion: Sequence[Sequence[int]], names: Sequence[str] | None = None) -> list[Table]:
    """Return a table with a row per class, and the table of confusions.

    Of more than 20 classes only the 20 that are recognised least are in the first, and there is no second.

    Args:
        confusion: the number of examples of each class (rows) that were predicted to be of each class (columns).
        names: of the classes; their numbers are shown if it is None, or has another number of names.
    """
    named = list(names) if names and len(names) == len(confusion) else [str(i) for i in range(len(confusion))]
    if len(named) <= _MOST:
        return [_by_class(confusion, named, range(len(named))), _confusions(confusion, named)]
    return [_by_class(confusion, named, sorted(range(len(named)), key=lambda i: _recognised(confusion, i))[:_MOST])]


def _recognised(confusion: Sequence[Sequence[int]], i: int) -> float:
    """Return the share of a class's examples that are recognised; classes without examples come last."""
    total = sum(confusion[i])
    return confusion[i][i] / total if total else 2.0


def _by_class(confusion: Sequence[Sequence[int]], names: Sequence[str], shown: Sequence[int]) -> Table:
    rows = []
    for i in shown:
        examples, predicted = sum(confusion[i]), sum(row[i] for row in confusion)
        others = {j: count for j, count in enumerate(confusion[i]) if j != i and count}
        most = max(others, key=lambda j: others[j]) if others else None
        rows.append(
            [
                names[i],
                f"{examples:,}",
                _percent(confusion[i][i], examples),
                _percent(confusion[i][i], predicted),
                "-" if most is None else f"{names[most]} ({others[most]:,})",
            ]
        )
    of = "" if len(rows) == len(names) else f", the {len(rows)} of {len(names)} that are recognised least"
    columns = ["class", "test examples", "recognised", "right when predicted", "most often taken for"]
    return Table(f"Test data by class{of}", columns, rows)


def _confusions(confusion: Sequence[Sequence[int]], names: Sequence[str]) -> Table:
    rows = [[name, *map(str, row)] for name, row in zip(names, confusion, strict=True)]
    return Table("Confusions: true classes in rows, predicted ones in columns", ["", *names], rows)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
