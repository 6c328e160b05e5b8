"""Clocks and gauges: how long some work takes, how much memory, and on which machine."""

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lila._util.allocation import Allocation


def seconds(work: Callable[[], object], repeats: int, warm_up: bool = True) -> float:
    """Return the median time of some work, after one run that is not counted."""
    if warm_up:
        work()
    return statistics.median(_seconds_once(work) for _ in range(repeats))


def ratios(works: Sequence[Callable[[], object]], unit: Callable[[], object], repeats: int) -> list[float]:
    """Return the times of some works divided by the time of a unit, after one run of each that is not counted.

    The unit and the works take turns, and the median is over the ratios of each turn. A machine that is slower for a
    while is then slower for both.
    """
    for work in (unit, *works):
        work()
    turns = []
    for _ in range(repeats):
        seconds_of_unit = _seconds_once(unit)
        turns.append([_seconds_once(work) / seconds_of_unit for work in works])
    return [statistics.median(of_work) for of_work in zip(*turns, strict=True)]


def _seconds_once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most bytes that tensors take during some work, beyond those that were there before."""
    with Allocation() as allocation:
        work()
    return allocation.peak


def machine() -> dict[str, Any]:
    """Describe the machine and the software: architecture, threads and the version of PyTorch."""
    return {"machine": platform.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__}
