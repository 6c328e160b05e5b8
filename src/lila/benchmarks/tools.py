"""How long something takes, how much memory, and on what machine."""

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lila._util.allocation import Allocation


def seconds(work: Callable[[], object], repeats: int, warm_up: bool = True) -> float:
    """The median time of some work, after one run that is not counted."""
    if warm_up:
        work()
    return statistics.median(_once(work) for _ in range(repeats))


def ratios(works: Sequence[Callable[[], object]], unit: Callable[[], object], repeats: int) -> list[float]:
    """The times of some works by that of a unit, after one run of each that is not counted.

    The unit and the works take turns, and the median is over the ratios of each turn, so that a machine which is slower
    for a while is so for both.
    """
    for work in (unit, *works):
        work()
    turns = []
    for _ in range(repeats):
        of_unit = _once(unit)
        turns.append([_once(work) / of_unit for work in works])
    return [statistics.median(of_work) for of_work in zip(*turns, strict=True)]


def _once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(work: Callable[[], object]) -> int:
    """The most bytes that tensors take during some work, beyond those that were there before."""
    with Allocation() as allocation:
        work()
    return allocation.peak


def machine() -> dict[str, Any]:
    """What the ratios were measured on."""
    return {"machine": platform.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__}
