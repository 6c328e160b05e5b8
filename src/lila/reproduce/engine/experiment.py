"""An experiment: a claim, jobs that put it to the test, and a summary of their results that says whether it held."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from lila.errors import ArgumentError
from lila.reproduce.engine.jobs import Job, Result
from lila.results.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Cell = tuple[str | float, ...]
"""The labels of one job of an experiment, as ("lila", "scaled", 0); the last entry is its seed."""
Jobs = dict[Cell, Job]
"""The jobs of an experiment by cell."""


class Scale(StrEnum):
    """The size of an experiment."""

    SMALL = "small"
    """A size for two cores: at most 40 minutes per experiment."""
    FULL = "full"
    """The paper's images, networks and versions with fewer epochs: at most an hour per job on two cores."""
    PAPER = "paper"
    """The paper's own settings."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim held.

    Attributes:
        claim: the claim, in a sentence.
        held: whether the results support it.
        found: the numbers on which this rests, as text.
    """

    claim: str
    held: bool
    found: str


@dataclass(frozen=True)
class Summary:
    """The findings of an experiment.

    Attributes:
        tables: tables for people to read.
        verdicts: one verdict per claim.
        figures: functions that draw the figures, by the name of the figure's file.
        rows: the data behind tables and figures as flat records, for `data.csv`.
        remarks: sentences that a reader should know besides.
    """

    tables: Sequence[Table]
    verdicts: Sequence[Verdict]
    _: KW_ONLY
    figures: Mapping[str, "Callable[[], Figure]"] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()


class Experiment(ABC):
    """A claim with the jobs that test it, for instance a table or figure of the paper.

    Attributes:
        name: the name on the command line, and of the folder with the results.
        title: what the experiment shows, in a line.
        claim: the claim that is tested, in a sentence.
        reproduced_if: the condition under which the claim counts as reproduced.
        small_seeds: the number of seeds at the small scale, unless the user asks for another.
        paper_seeds: the number of seeds at the other scales, unless the user asks for another.
        scales: the scales at which it can be run.
        alone: whether its jobs must have the machine for themselves, because they measure time.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    claim: ClassVar[str]
    reproduced_if: ClassVar[str]
    small_seeds: ClassVar[int] = 2
    paper_seeds: ClassVar[int] = 3
    scales: ClassVar[tuple[Scale, ...]] = (Scale.SMALL, Scale.PAPER)
    alone: ClassVar[bool] = False

    @abstractmethod
    def jobs(self, scale: Scale, seeds: int) -> Jobs:
        """Return the jobs for seeds 0 to `seeds - 1`, the jobs of the first seed first."""

    @abstractmethod
    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        """Return tables, figures and verdicts for the results of all jobs."""


def chosen_jobs(experiment: Experiment, scale: Scale, seeds: int, networks: Sequence[tuple[str, str]] = ()) -> Jobs:
    """Return the jobs of an experiment for seeds 0 to `seeds - 1`, or those of some data sets and networks alone."""
    if scale not in experiment.scales:
        known = ", ".join(experiment.scales)
        raise ArgumentError(f"{experiment.name} has no scale {scale.value!r}; choose from {known}.")
    jobs = experiment.jobs(scale, seeds)
    known_networks = dict.fromkeys(cell[:2] for cell, job in jobs.items() if cell[:2] == _network_of(job))
    for network in networks:
        if network not in known_networks:
            known = ", ".join(":".join(map(str, pair)) for pair in known_networks)
            choose = f"choose from {known}" if known else "its jobs are not told apart by network"
            raise ArgumentError(
                f"{experiment.name} at the scale {scale.value!r} has no jobs of {':'.join(network)}; {choose}."
            )
    return {cell: job for cell, job in jobs.items() if not networks or cell[:2] in networks}


def _network_of(job: Job) -> tuple[Any, Any]:
    """Return the data set and the network that a job trains; None for what it does not name."""
    return job.arguments.get("recipe", {}).get("source"), job.arguments.get("model")


def group_seeds(results: Mapping[Cell, T]) -> dict[Cell, list[T]]:
    """Collect the results that differ in their seed alone, by the rest of their cell."""
    groups: dict[Cell, list[T]] = {}
    for cell, result in results.items():
        groups.setdefault(cell[:-1], []).append(result)
    return groups
