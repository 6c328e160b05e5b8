"""How long something takes, how much memory, and on what machine."""

import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from lila.allocation import Allocation


def seconds(work: Callable[[], object], repeats: int, warm_up: bool = True) -> float:
    """The median time of some work, after one run that is not counted."""
    if warm_up:
        work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak(work: Callable[[], object]) -> int:
    """The most bytes that tensors take during some work, beyond those that were there before."""
    with Allocation() as allocation:
        work()
    return allocation.peak


def machine() -> dict[str, Any]:
    """What the ratios were measured on."""
    return {"machine": platform.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__}
