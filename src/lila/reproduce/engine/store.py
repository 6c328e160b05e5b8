"""A folder of results, a file per job, that several processes and machines may share."""

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lila._util.files import replaced
from lila.errors import DataError
from lila.reproduce.engine.jobs import Job, Result


@dataclass(frozen=True)
class Store:
    """Results by the key of their job.

    Attributes:
        folder: where they are.
    """

    folder: Path

    def path(self, job: Job) -> Path:
        """The file of a job's result."""
        return self.folder / f"{job.key}.json"

    @contextmanager
    def claimed(self, job: Job) -> Iterator[Path | None]:
        """A folder for what a job needs to go on after an interruption; None while another process is at it."""
        folder = self.folder / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{job.key}.lock").open("w") as lock:  # given up by the system when its process ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            yield folder / job.key
            Path(lock.name).unlink(missing_ok=True)

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Those without a result, each once, in order."""
        return [job for job in dict.fromkeys(jobs) if not self.path(job).exists()]

    def write(self, job: Job, result: Result, made: dict[str, Any]) -> None:
        """Keep a result, with what is worth knowing about how it was made."""
        content = {"work": job.work, "arguments": job.arguments, "made": made, "result": rounded(result)}
        with replaced(self.path(job)) as temporary:
            temporary.write_text(json.dumps(content, separators=(",", ":")) + "\n")

    def read(self, job: Job) -> dict[str, Any]:
        """A result with what it was made from and how."""
        path = self.path(job)
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            if content["arguments"] != json.loads(json.dumps(job.arguments)):
                raise KeyError("its arguments are another job's")
            return content
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}. Delete it, and the job is done anew.") from error


def rounded(value: Any, digits: int = 6) -> Any:
    """A JSON value with its numbers cut to so many significant digits: what lies beyond is not worth its bytes."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name: rounded(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part, digits) for part in value]
    return value
