"""Where the time of the two passes goes, by operation: shares of the time of a hyper-step with probed passes.

python -m lila.benchmarks.profile_passes --network cnn --examples 200

Operations are timed as they are dispatched, not by PyTorch's profiler: what that writes down comes to lie between the
tensors, so that memory is not used again as it would be, and operations on large tensors seem several times slower.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lila._util.memory import keep_heap
from lila.benchmarks import JOBS
from lila.benchmarks.networks import hyper_steps, prepared

_SHOWN = 10  # operations


class Stopwatch(TorchDispatchMode):
    """Adds up the seconds and the calls of each operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        name = str(func).rsplit(".", 1)[0]
        self.seconds[name] += time.perf_counter() - start
        self.calls[name] += 1
        return result


def main() -> None:
    """Profile and print a table per pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=list(JOBS), default="cnn")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--passes", default="probed")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_heap()
    torch.set_num_threads(arguments.threads)
    job = JOBS[arguments.network]
    model, data = prepared(job, arguments.examples)
    for number, work in enumerate(hyper_steps(job, model, data, [arguments.passes])[arguments.passes], start=1):
        work()  # not counted: first uses cost more
        with Stopwatch() as stopwatch:
            work()
        total = sum(stopwatch.seconds.values())
        print(f"{arguments.network}, {arguments.passes}, pass {number}")
        for name, seconds in sorted(stopwatch.seconds.items(), key=lambda item: -item[1])[:_SHOWN]:
            print(f"  {name:<44}{seconds / total:6.1%}  {stopwatch.calls[name]:5d} calls")


if __name__ == "__main__":
    main()
