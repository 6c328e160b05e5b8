"""Several runs in one table."""

from collections.abc import Sequence
from typing import Any

from lila.results.report.parts import range_parts
from lila.results.report.sheet import Sheet
from lila.results.report.words import SCORES, score_text
from lila.training.range_table import range_table

_OF_DATA = ("data", "version", "training images", "training series", "seed")  # settings that choose the training data


def compared_parts(sheets: Sequence[Sheet]) -> dict[str, Any]:
    """Return a table with a column per run: ranges with their bars, evidence, scores, and settings that differ."""
    tables = [range_table(sheet.augmentation, sheet.shape, sheet.history, sheet.range_errors) for sheet in sheets]
    drawn = [
        {row.name: range_parts(sheet, row) for row in table.rows} for sheet, table in zip(sheets, tables, strict=True)
    ]
    names = dict.fromkeys(name for of_run in drawn for name in of_run)
    rows: list[tuple[str, list[str], int | None]] = []
    if all(sheet.examples for sheet in sheets):
        per_example = [sheet.evidence["value"] / (sheet.examples or 1) for sheet in sheets]
        rows.append(("evidence per example, nats", [f"{value:.4f}" for value in per_example], None))
    values = [sheet.evidence["value"] for sheet in sheets]
    rows.append(("evidence, nats", [f"{value:,.1f}" for value in values], _best(sheets, values)))
    for name, text in SCORES.items():
        scores = [(sheet.scores or {}).get(name) for sheet in sheets]
        if any(score is not None for score in scores):
            rows.append((f"test {text}", ["–" if score is None else score_text(score) for score in scores], None))
    return {
        "titles": [sheet.title for sheet in sheets],
        "ranges": [(name, [of_run.get(name) for of_run in drawn]) for name in names],
        "rows": rows,
        "settings": _differing_settings(sheets),
    }


def _best(sheets: Sequence[Sheet], values: Sequence[float]) -> int | None:
    """Return which run has the largest evidence, if all are of the same data."""
    data = {str([sheet.settings.get(name) for name in _OF_DATA]) for sheet in sheets}
    known = all(sheet.settings.get("data") is not None for sheet in sheets)
    return values.index(max(values)) if len(data) == 1 and known else None


def _differing_settings(sheets: Sequence[Sheet]) -> list[tuple[str, list[str]]]:
    names = dict.fromkeys(name for sheet in sheets for name in sheet.settings)
    texts = {name: [_setting(sheet, name) for sheet in sheets] for name in names}
    return [(name, entries) for name, entries in texts.items() if len(set(entries)) > 1]


def _setting(sheet: Sheet, name: str) -> str:
    value = sheet.settings.get(name)
    return "–" if value is None else str(value)
