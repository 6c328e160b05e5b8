"""Where the time of the two passes goes, by operation: shares of the time of a hyper-step with the default passes.

python benchmarks/profile_passes.py --network cnn --examples 200
"""

import argparse

from torch.profiler import ProfilerActivity, profile

from lila.bench import JOBS
from lila.bench.networks import hyper_steps, prepared
from lila.memory import keep_heap

_SHOWN = 10  # operations


def main() -> None:
    """Profile and print a table per pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=list(JOBS), default="cnn")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--passes", default="probed")
    arguments = parser.parse_args()
    keep_heap()
    job = JOBS[arguments.network]
    model, data = prepared(job, arguments.examples)
    for number, work in enumerate(hyper_steps(job, model, data, [arguments.passes])[arguments.passes], start=1):
        work()  # not counted: first uses cost more
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            work()
        events = sorted(profiled.key_averages(), key=lambda event: -event.self_cpu_time_total)
        total = sum(event.self_cpu_time_total for event in events)
        print(f"{arguments.network}, {arguments.passes}, pass {number}")
        for event in events[:_SHOWN]:
            print(f"  {event.key:<44}{event.self_cpu_time_total / total:6.1%}  {event.count:5d} calls")


if __name__ == "__main__":
    main()
