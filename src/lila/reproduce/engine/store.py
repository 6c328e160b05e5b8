"""A folder with a file per result, which several processes and machines may share."""

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
        folder: the folder of the results.
    """

    folder: Path

    def path(self, job: Job) -> Path:
        """Return the file of a job's result, whether it exists or not."""
        return self.folder / f"{job.key}.json"

    @contextmanager
    def claimed(self, job: Job) -> Iterator[Path | None]:
        """Claim a job for this process.

        Yields:
            The scratch folder of the job, or None while another process has claimed the job.
        """
        folder = self.folder / "unfinished"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{job.key}.lock").open("w") as lock:  # the system releases it when the process ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            yield folder / job.key
            Path(lock.name).unlink(missing_ok=True)

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs without a result, each once, in their order."""
        return [job for job in dict.fromkeys(jobs) if not self.path(job).exists()]

    def write(self, job: Job, result: Result, made: dict[str, Any]) -> None:
        """Write a result, with the time, machine and software that it was made with."""
        content = {"work": job.work, "arguments": job.arguments, "made": made, "result": rounded(result)}
        with replaced(self.path(job)) as temporary:
            temporary.write_text(json.dumps(content, separators=(",", ":")) + "\n")

    def read(self, job: Job) -> dict[str, Any]:
        """Return the content of a job's file: its work, arguments, result and what it was made with."""
        path = self.path(job)
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            if [content["work"], content["arguments"]] != json.loads(json.dumps([job.work, job.arguments])):
                raise ValueError("its work and arguments are those of another job")
            return content
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}. Delete it, and the job is done again.") from error


def rounded(value: Any, digits: int = 6) -> Any:
    """Return a JSON value with its numbers rounded to a number of significant digits, to keep files small."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {name: rounded(entry, digits) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry, digits) for entry in value]
    return value
