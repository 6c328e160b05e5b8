"""A job: a piece of work whose result depends on its arguments alone, so that it is stored under a hash of these."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REVISIONS: dict[str, int] = {}
"""By work: raised when a mended defect changes its results, so that those from before are not used any more."""

Result = dict[str, Any]
"""What a job finds out, as JSON."""


@dataclass(frozen=True)
class Surroundings:
    """What a job needs but its result does not depend on.

    Attributes:
        scratch: a folder of its own, where it may leave what it takes to go on after an interruption.
        data_dir: where data sets known by name are; LILA_DATA or the user's own if None.
        device: where to train.
    """

    scratch: Path
    data_dir: Path | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Attributes:
        work: name of the module of `lila.reproduce.paper` whose function `work` does it.
        arguments: of the work, as JSON.
    """

    work: str
    arguments: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """A hash of everything that the result depends on."""
        parts = [self.work, self.arguments] + ([REVISIONS[self.work]] if self.work in REVISIONS else [])
        content = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    def __hash__(self) -> int:
        return hash(self.key)


Work = Callable[[Mapping[str, Any], Surroundings], Result]


@dataclass(frozen=True)
class Shard:
    """The part of all jobs that one of several machines does.

    Attributes:
        number: from 1 to `count`.
        count: of the machines.
    """

    number: int = 1
    count: int = 1

    def __contains__(self, job: Job) -> bool:
        return int(job.key, 16) % self.count == self.number - 1
