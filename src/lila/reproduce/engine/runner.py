"""Doing jobs, one after the other or some side by side; what is finished is kept, whatever happens to the rest."""

import importlib
import multiprocessing
import multiprocessing.connection
import os
import platform
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from lila._util.memory import keep_heap
from lila._util.versions import versions
from lila.errors import LilaError
from lila.reproduce.engine.jobs import Job, Surroundings, Work
from lila.reproduce.engine.store import Store
from lila.training.interruption import ended_by_sigterm

Tell = Callable[[Job, int, int, float], None]
"""Told after each job: the job, how many are done, of how many, and the seconds it took."""

_WORKS = {
    "images": "lila.reproduce.engine.images",
    "toy": "lila.reproduce.paper.toy",
}  # modules whose function `work` does jobs, by the name of the work
_PATIENCE = 30  # seconds in which an interrupted job may write its checkpoint


class JobError(LilaError):
    """Some jobs failed; the others are done."""


def run_jobs(jobs: Sequence[Job], store: Store, at_once: int, data_dir: Path | None, device: str, tell: Tell) -> None:
    """Do all jobs that have no result yet.

    Args:
        jobs: to do.
        store: where results are, and go.
        at_once: how many to do side by side, in processes of their own that share the cores evenly.
        data_dir: where data sets known by name are.
        device: where to train.
        tell: called after each job.

    Raises:
        JobError: some failed, after all others were done.
    """
    left = store.missing(jobs)
    errors: list[str] = []
    attempts = _here if at_once == 1 else _side_by_side
    for i, (job, outcome) in enumerate(attempts(left, store, at_once, data_dir, device)):
        if isinstance(outcome, float):
            tell(job, i + 1, len(left), outcome)
        else:
            errors.append(f"job {job.key}: {outcome}")
    if errors:
        raise JobError(f"{len(errors)} of {len(left)} jobs failed. " + "; ".join(errors))


Outcomes = Iterator[tuple[Job, float | str]]
"""Jobs as they end, with the seconds they took, or what went wrong."""


def _here(jobs: Sequence[Job], store: Store, at_once: int, data_dir: Path | None, device: str) -> Outcomes:
    for job in jobs:
        try:
            outcome: float | str = do(job, store, data_dir, device)
        except LilaError as error:
            outcome = str(error)
        yield job, outcome


def _side_by_side(jobs: Sequence[Job], store: Store, at_once: int, data_dir: Path | None, device: str) -> Outcomes:
    """A process for each job; they are ended, with a checkpoint written, when this one is."""
    context = multiprocessing.get_context("spawn")  # PyTorch's threads do not survive a fork
    threads = max(1, (os.cpu_count() or 1) // at_once)
    waiting, doing = list(jobs), dict[int, tuple[Job, BaseProcess, multiprocessing.connection.Connection]]()
    with ended_by_sigterm():
        try:
            while waiting or doing:
                while waiting and len(doing) < at_once:
                    job = waiting.pop(0)
                    receiving, sending = context.Pipe(duplex=False)
                    process: BaseProcess = context.Process(
                        target=_worker, args=(sending, job, store, data_dir, device, threads)
                    )
                    process.start()
                    sending.close()
                    doing[process.sentinel] = job, process, receiving
                for sentinel in multiprocessing.connection.wait(list(doing)):
                    assert isinstance(sentinel, int)
                    job, process, receiving = doing.pop(sentinel)
                    process.join()
                    yield job, _received(receiving, process)
        finally:
            for _, process, _ in doing.values():
                process.terminate()
            for _, process, _ in doing.values():
                process.join(_PATIENCE)
                process.kill()


def _worker(
    sending: multiprocessing.connection.Connection,
    job: Job,
    store: Store,
    data_dir: Path | None,
    device: str,
    threads: int,
) -> None:
    """One job in a process of its own; Ctrl-C reaches the one that started it, which then ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        sending.send(do(job, store, data_dir, device))
    except LilaError as error:
        sending.send(str(error))


def _received(receiving: multiprocessing.connection.Connection, process: BaseProcess) -> float | str:
    with suppress(EOFError):
        received: float | str = receiving.recv()
        return received
    return f"its process ended with code {process.exitcode}" + (
        ", perhaps for lack of memory" if process.exitcode == -signal.SIGKILL else ""
    )


def do(job: Job, store: Store, data_dir: Path | None, device: str) -> float:
    """Do one job and keep its result, unless another process has done so; returns the seconds it took."""
    keep_heap()
    work: Work = importlib.import_module(_WORKS[job.work]).work
    with store.claimed(job) as scratch:
        if scratch is None or store.path(job).exists():
            return 0.0
        started = time.perf_counter()
        result = work(job.arguments, Surroundings(scratch, data_dir, device))
        seconds = time.perf_counter() - started
        before = result["history"]["seconds"]  # of what was done before an interruption too
        made = {
            "seconds": max(seconds, sum(sum(column) for column in before.values())),
            "threads": torch.get_num_threads(),
            "machine": platform.machine(),
            "device": device,
            **versions(),
        }
        store.write(job, result, made)
        shutil.rmtree(scratch, ignore_errors=True)
        return seconds
