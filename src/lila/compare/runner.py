"""Running the systems of a comparison one after the other; each result is kept in a file of its own."""

import importlib.util
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import time
from typing import Any

import torch

from lila._util.versions import versions
from lila.compare.registry import REFERENCE, SYSTEMS
from lila.compare.system import Conditions, Found, System
from lila.errors import LilaError
from lila.reproduce.engine.jobs import Job
from lila.reproduce.engine.store import Store

Note = Callable[[str], None]
"""Tells the user how far the comparison is."""


@dataclass(frozen=True)
class Entry:
    """A result of a system for one seed.

    Attributes:
        system: the name of the system.
        seed: the seed.
        inverse: whether ranges were written as 1 / eta.
        found: what it found.
        made: the time, machine and software that it was made with.
    """

    system: str
    seed: int
    inverse: bool
    found: Found
    made: Mapping[str, Any]


def job_of(system: System, conditions: Conditions) -> Job:
    """Return the job whose key names the file of a result."""
    return Job(f"compare {system.name}", conditions.described())


def check_packages(systems: Sequence[System]) -> None:
    """Raise LilaError if a system needs a package that is not installed, before anything is trained."""
    for system in systems:
        if system.needs is not None and importlib.util.find_spec(system.needs) is None:
            raise LilaError(
                f"The system {system.name!r} needs {system.needs}: pip install 'lila-torch[compare]', or leave it out "
                "with --systems."
            )


def run_systems(
    systems: Sequence[System],
    conditions_of: Callable[[int], Conditions],
    seeds: int,
    store: Store,
    *,
    inverse: bool,
    note: Note,
) -> list[Entry]:
    """Run each system with each seed, unless its result is there already.

    Args:
        systems: the systems, of which lila is the first.
        conditions_of: makes the conditions for a seed.
        seeds: how many seeds, from 0.
        store: the folder of the results.
        inverse: whether to ask, with the first seed, if writing ranges as 1 / eta changes what a system learns; answers
            that are there already are told in any case.
        note: is told of each result.
    """
    assert systems[0].name == REFERENCE
    check_packages(systems)
    session = _Session(store, note)
    entries: list[Entry] = []
    for seed in range(seeds):
        conditions = conditions_of(seed)
        for system in systems:
            entries.append(session.entry(system, conditions))
            if system.name == REFERENCE:
                conditions = conditions.changed(lila_seconds=entries[-1].found.seconds)
        if seed == 0:
            written = conditions.changed(inverse=True)
            learning = sorted((system for system in systems if system.learns), key=lambda system: system.several_runs)
            asked = [one for one in learning if inverse or not store.missing([job_of(one, written)])]
            entries += [session.entry(system, written) for system in asked]
    return entries


class _Session:
    """The making of results in this process.

    Args:
        store: the folder of the results.
        note: is told of each result.
    """

    def __init__(self, store: Store, note: Note) -> None:
        self.store, self.note = store, note
        self.started, self.warm = round(time()), False

    def entry(self, system: System, conditions: Conditions) -> Entry:
        """Return the result of a system, after making it if there is none."""
        job, seed, inverse = job_of(system, conditions), conditions.seed, conditions.inverse
        label = f"{system.title}, seed {seed}{', 1/η' if inverse else ''}"
        if self.store.missing([job]):
            self._warm_up(conditions)
            found = system.run(conditions)
            made = {"session": self.started, "threads": torch.get_num_threads(), "machine": platform.machine()}
            self.store.write(job, asdict(found), made | versions())
            self.note(f"{label}: {found.seconds:.0f} s, accuracy {100 * found.accuracy:.1f} %")
        else:
            self.note(f"{label}: there already")
        content = self.store.read(job)
        return Entry(system.name, seed, inverse, Found(**content["result"]), content["made"])

    def _warm_up(self, conditions: Conditions) -> None:
        """Train for a moment, as the first use of PyTorch's operations in a process takes longer."""
        if not self.warm:
            SYSTEMS[REFERENCE].run(conditions.changed(epochs=2))
            self.warm = True
