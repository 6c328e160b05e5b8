"""Reading the results of trainings: accuracies, evidences, learned ranges, and the history by epochs."""

from collections.abc import Iterable

from lila.reproduce.engine.jobs import Result
from lila.training.history import EpochRecord, from_columns


def accuracies(results: Iterable[Result]) -> list[float]:
    """Return the test accuracies in percent."""
    return [100 * result["test"]["accuracy"] for result in results]


def evidences(results: Iterable[Result]) -> list[float]:
    """Return the evidence per training image, in nats."""
    return [result["evidence"]["value"] / result["examples"][0] for result in results]


def learned_ranges(results: Iterable[Result], generator: str) -> list[float]:
    """Return the learned ranges of a generator."""
    return [result["ranges"][generator] for result in results]


def history_rows(result: Result) -> list[EpochRecord]:
    """Return the history of a result with one record per epoch, as `Run.history` has it."""
    return from_columns(result["history"])
