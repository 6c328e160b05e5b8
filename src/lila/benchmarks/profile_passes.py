"""The share of each PyTorch operation in the time of a hyper-step, for each of its two passes.

    python -m lila.benchmarks.profile_passes --network cnn --examples 200

Operations are timed when they are dispatched, not by PyTorch's profiler. The profiler's records lie between the tensors
in memory, so that freed memory is not reused, and operations on large tensors seem several times slower.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from lila.benchmarks.hyper_steps import checked_passes
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.workloads import WORKLOADS, prepare
from lila.training.choices import FULL_PASSES

_SHOWN = 10  # operations of each pass that take most of the time


class Stopwatch(TorchDispatchMode):
    """Counts the seconds and the calls of each operation."""

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


def main(given: Sequence[str] | None = None) -> None:
    """Check, profile and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--network", choices=list(WORKLOADS), default="cnn", help="[cnn]")
    parser.add_argument("--examples", type=int, default=1000, metavar="N", help="[1000]")
    parser.add_argument("--passes", choices=[*FULL_PASSES], default="probed", help="[probed]")
    arguments = start(parser, given)
    workload = WORKLOADS[arguments.network]
    model, data = prepare(workload, arguments.examples)
    result: dict[str, Any] = {}
    passes = checked_passes(workload, model, data, [arguments.passes])[arguments.passes]
    for number, work in enumerate(passes, start=1):
        work()  # not counted: first uses cost more
        with Stopwatch() as stopwatch:
            work()
        total = sum(stopwatch.seconds.values())
        slowest = sorted(stopwatch.seconds, key=lambda name: -stopwatch.seconds[name])[:_SHOWN]
        result[f"pass {number}"] = {
            name: {"share": round(stopwatch.seconds[name] / total, 4), "calls": stopwatch.calls[name]}
            for name in slowest
        }
    print_result(arguments, result)


if __name__ == "__main__":
    main()
