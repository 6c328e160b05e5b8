"""Doing jobs, one after the other or several side by side; finished results are kept, whatever happens to the rest."""

import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import torch

from lila._util.memory import keep_heap
from lila._util.versions import versions
from lila.errors import LilaError
from lila.reproduce.engine.jobs import Job, Result, Surroundings, Work
from lila.reproduce.engine.registry import find_work
from lila.reproduce.engine.store import Store
from lila.training.side_by_side import Failure, do_all

OnJobDone = Callable[[Job, int, int, float], None]
"""Called after each job with the job, the number of jobs done, the number of all jobs, and the seconds it took."""


class JobError(LilaError):
    """Some jobs failed; the others are done."""


@dataclass(frozen=True)
class Assignment:
    """A job with everything that a process needs to do it.

    Another process gets it pickled, in which the work is a reference to a function of a module: the process imports
    that module, and needs no registry of its own.

    Attributes:
        job: the job to do.
        work: the function that does it.
        store: the store of its result.
        data_dir: the folder of the data sets known by name.
        device: the device on which to train.
    """

    job: Job
    work: Work
    store: Store
    _: KW_ONLY
    data_dir: Path | None = None
    device: str = "cpu"

    def carry_out(self) -> float:
        """Do the job and store its result, unless another process has or is at it; returns the seconds it took."""
        keep_heap()
        with self.store.claimed(self.job) as scratch:
            if scratch is None or self.store.path(self.job).exists():
                return 0.0
            scratch.mkdir(exist_ok=True)
            started = time.perf_counter()
            result = self.work(self.job.arguments, Surroundings(scratch, self.data_dir, self.device))
            seconds = time.perf_counter() - started
            made = {
                "seconds": max(seconds, _seconds_of_history(result)),
                "threads": torch.get_num_threads(),
                "machine": platform.machine(),
                "device": self.device,
                **versions(),
            }
            self.store.write(self.job, result, made)
            shutil.rmtree(scratch, ignore_errors=True)
            return seconds


def _seconds_of_history(result: Result) -> float:
    """Return the seconds of all epochs, also of those before an interruption; 0 for a result without a history."""
    return float(sum(sum(column) for column in result.get("history", {}).get("seconds", {}).values()))


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    *,
    at_once: int = 1,
    data_dir: Path | None = None,
    device: str = "cpu",
    on_job_done: OnJobDone = lambda job, done, count, seconds: None,
) -> None:
    """Do all jobs that have no result yet.

    Args:
        jobs: the jobs.
        store: the store of their results.
        at_once: the number of jobs to do side by side; if it is more than one, each has a process of its own, and the
            processes share the cores evenly.
        data_dir: the folder of the data sets known by name.
        device: the device on which to train.
        on_job_done: called after each job.

    Raises:
        ArgumentError: a job's work is not registered; nothing was done.
        JobError: some jobs failed, after all others were done.
    """
    left = [
        Assignment(job, find_work(job.work), store, data_dir=data_dir, device=device) for job in store.missing(jobs)
    ]
    errors: dict[str, list[str]] = {}  # the keys of the jobs by the reason why they failed
    endings = do_all([assignment.carry_out for assignment in left], at_once)
    for done, (number, ending) in enumerate(endings, start=1):
        job = left[number].job
        if isinstance(ending, Failure):
            errors.setdefault(ending.reason, []).append(job.key)
        else:
            on_job_done(job, done, len(left), ending)
    if errors:
        count = sum(map(len, errors.values()))
        reasons = (f"job {', '.join(keys)}: {reason}" for reason, keys in errors.items())
        raise JobError(f"{count} of {len(left)} jobs failed. " + "; ".join(reasons))
