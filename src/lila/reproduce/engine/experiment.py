"""What an experiment is: a claim, jobs that put it to the test, and a summary of their results that says if it held."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from lila.reproduce.engine.jobs import Job, Result
from lila.results.tables import Table
from lila.training.history import EpochRecord, from_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Cell = tuple[str | float, ...]
"""Names one run of an experiment; the last entry is its seed."""


class Scale(StrEnum):
    """How large an experiment is."""

    SMALL = "small"
    """What two cores can bear, in at most 40 minutes an experiment."""
    PAPER = "paper"
    """The paper's own settings."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held.

    Attributes:
        claim: in a sentence.
        held: whether it did.
        found: what was found.
    """

    claim: str
    held: bool
    found: str


@dataclass(frozen=True)
class Summary:
    """What came out of an experiment.

    Attributes:
        tables: to be read.
        verdicts: on its claims.
        figures: functions that draw them, by the name of their file.
        rows: the data behind tables and figures, flat.
        remarks: what a reader should know.
    """

    tables: Sequence[Table]
    verdicts: Sequence[Verdict]
    figures: Mapping[str, "Callable[[], Figure]"]
    rows: Sequence[Mapping[str, Any]]
    remarks: Sequence[str] = field(default=())


class Experiment(ABC):
    """A table or figure of the paper.

    Attributes:
        name: by which it is called.
        title: what it is in the paper.
        claim: in a sentence.
        reproduced_if: what counts as reproduced.
        small_seeds: how many at the small scale, unless it is asked for another number.
        paper_seeds: the same at the paper's.
        alone: whether its jobs must not share the machine, as they measure time.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    claim: ClassVar[str]
    reproduced_if: ClassVar[str]
    small_seeds: ClassVar[int] = 2
    paper_seeds: ClassVar[int] = 3
    alone: ClassVar[bool] = False

    @abstractmethod
    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        """The jobs of so many seeds, those of the first seed first."""

    @abstractmethod
    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        """Tables, figures and verdicts."""


def over_seeds(results: Mapping[Cell, T]) -> dict[Cell, list[T]]:
    """Results that differ in nothing but their seed, together."""
    together: dict[Cell, list[T]] = {}
    for cell, result in results.items():
        together.setdefault(cell[:-1], []).append(result)
    return together


def networks_of(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """The data sets and networks of cells that begin with these, each once."""
    return list(dict.fromkeys((str(cell[0]), str(cell[1])) for cell in cells))


def seeds_by_network(cells: Mapping[Cell, Sequence[Result]]) -> list[str]:
    """A remark on how many seeds each network has, if they differ; cells begin with data set and network."""
    networks: dict[int, list[str]] = {}
    for data, model in networks_of(cells):
        count = len(next(runs for cell, runs in cells.items() if cell[:2] == (data, model)))
        networks.setdefault(count, []).append(f"{model} on {data}")
    if len(networks) == 1:
        return []
    told = [f"{count} for {', '.join(names)}" for count, names in networks.items()]
    return [f"Seeds: {'; '.join(told)}."]


def accuracies(results: Iterable[Result]) -> list[float]:
    """Test accuracies in percent."""
    return [100 * result["test"]["accuracy"] for result in results]


def evidences(results: Iterable[Result]) -> list[float]:
    """Evidence per training image, in nats."""
    return [result["evidence"]["value"] / result["examples"][0] for result in results]


def learned(results: Iterable[Result], generator: str) -> list[float]:
    """The ranges of a generator."""
    return [result["ranges"][generator] for result in results]


def records(result: Result) -> list[EpochRecord]:
    """The history of a run as one record per epoch, as `Run.history` has it."""
    return from_columns(result["history"])
