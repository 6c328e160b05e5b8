"""Reading the results of trainings: accuracies, evidences, learned ranges, and the history by epochs."""

from collections.abc import Iterable
from typing import Any

from lila.reproduce.engine.jobs import Result


def accuracies(results: Iterable[Result]) -> list[float]:
    """Return the test accuracies in percent."""
    return [100 * result["test"]["accuracy"] for result in results]


def evidences(results: Iterable[Result]) -> list[float]:
    """Return the evidence per training image, in nats."""
    return [result["evidence"]["value"] / result["examples"][0] for result in results]


def learned_ranges(results: Iterable[Result], generator: str) -> list[float]:
    """Return the learned ranges of a generator."""
    return [result["ranges"][generator] for result in results]


def history_rows(result: Result) -> list[dict[str, Any]]:
    """Return the history of a result with one dictionary per epoch, as `Run.history` has it."""
    history = result["history"]
    rows = []
    for i, epoch in enumerate(history["epoch"]):
        evidence = {name: values[i] for name, values in history["evidence"].items()}
        row = {"epoch": epoch, "ranges": {name: values[i] for name, values in history["ranges"].items()}}
        rows.append(row | ({"evidence": evidence} if evidence["value"] is not None else {}))
    return rows
