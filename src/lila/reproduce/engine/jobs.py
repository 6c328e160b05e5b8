"""A job is a piece of work whose result depends on its arguments alone, so that it is stored under a hash of these."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Result = dict[str, Any]
"""What a job returns; it must be possible to write it as JSON."""


@dataclass(frozen=True)
class Surroundings:
    """What a job needs but its result does not depend on.

    Attributes:
        scratch: a folder for this job alone, where it may leave files that let it continue after an interruption.
        data_dir: the folder of the data sets known by name; None for the folder in LILA_DATA or the user's own.
        device: the device on which to train.
    """

    scratch: Path
    data_dir: Path | None = None
    device: str = "cpu"


Work = Callable[[Mapping[str, Any], Surroundings], Result]
"""A function that does jobs: it takes the arguments of a job and its surroundings, and returns the result."""


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Attributes:
        work: the name under which the function that does the job is registered (`registry.register_work`).
        arguments: the arguments of that function, which it must be possible to write as JSON. The result must not
            depend on anything else.
    """

    work: str
    arguments: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """A hash of everything that the result depends on."""
        content = json.dumps([self.work, self.arguments], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Shard:
    """The share of all jobs that one of several machines does.

    Attributes:
        number: the number of the shard, from 1 to `count`.
        count: the number of shards.
    """

    number: int = 1
    count: int = 1

    def __contains__(self, job: Job) -> bool:
        return int(job.key, 16) % self.count == self.number - 1
