"""Cells of CSV files that a spreadsheet shows as text and does not run."""

from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(value: Any) -> Any:
    """Return a value for a cell, with a ' before a text that a spreadsheet would take for a formula.

    Names of classes and files come from folders that somebody else may have made. A spreadsheet runs a cell such as
    `=HYPERLINK(...)` when it opens the file. Numbers stay as they are.
    """
    text = value if isinstance(value, str) else ""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not _is_number(text) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
