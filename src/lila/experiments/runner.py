"""Doing jobs, one after the other or some side by side; what is finished is kept, whatever happens to the rest."""

import importlib
import multiprocessing
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from lila.experiments.jobs import Job, Surroundings, Work
from lila.experiments.store import Store
from lila.memory import keep_heap
from lila.versions import versions

Tell = Callable[[Job, int, int, float], None]
"""Told after each job: the job, how many are done, of how many, and the seconds it took."""


def run_jobs(jobs: Sequence[Job], store: Store, at_once: int, data_dir: Path | None, device: str, tell: Tell) -> None:
    """Do all jobs that have no result yet.

    Args:
        jobs: to do.
        store: where results are, and go.
        at_once: how many to do side by side; they share the cores evenly.
        data_dir: where data sets known by name are.
        device: where to train.
        tell: called after each job.
    """
    left = store.missing(jobs)
    if at_once == 1:
        for i, job in enumerate(left):
            tell(job, i + 1, len(left), do(job, store, None, data_dir, device))
        return
    threads = max(1, len(os.sched_getaffinity(0)) // at_once) if hasattr(os, "sched_getaffinity") else 1
    pool = ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn"))  # threads do not survive a fork
    try:
        doing = {pool.submit(do, job, store, threads, data_dir, device): job for job in left}
        for i, done in enumerate(as_completed(doing)):
            tell(doing[done], i + 1, len(left), done.result())
    finally:
        for process in (pool._processes or {}).values():
            process.terminate()  # on an error or Ctrl-C: what they have not finished is done again
        pool.shutdown(cancel_futures=True)


def do(job: Job, store: Store, threads: int | None, data_dir: Path | None, device: str) -> float:
    """Do one job and keep its result; returns the seconds it took."""
    keep_heap()
    if threads is not None:
        torch.set_num_threads(threads)
    scratch = store.scratch(job)
    work: Work = importlib.import_module(f"lila.experiments.{job.work}").work
    started = time.perf_counter()
    result = work(job.arguments, Surroundings(scratch, data_dir, device))
    seconds = time.perf_counter() - started
    made = {
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "device": device,
        **versions(),
    }
    store.write(job, result, made)
    shutil.rmtree(scratch, ignore_errors=True)
    return seconds
