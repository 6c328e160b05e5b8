"""The CPU time until the rotation of rotated MNIST is learned, while training and by passes over the data.

A run ends with the first epoch after which the range of the rotation is within a fifth of its true value and all other
ranges are below 0.1. Each kind of passes has its own defaults; passes over the data take the paper's 31 independent
samples.

    LILA_DATA=... python -m lila.benchmarks.time_to_range --passes running
    LILA_DATA=... python -m lila.benchmarks.time_to_range --passes probed
    LILA_DATA=... python -m lila.benchmarks.time_to_range --passes probed --limit 600
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf, pi
from typing import Any

import torch

import lila
from lila.benchmarks.script import new_parser, print_result, start

_SETTINGS: dict[str, dict[str, Any]] = {"running": {}, "probed": {"noise": "independent", "samples": 31}}


class Ended(Exception):  # noqa: N818
    """Ends a run whose ranges are close enough to the truth, or that takes too long."""


def learned(ranges: Mapping[str, float]) -> bool:
    """Return whether the rotation is within a fifth of its true range and all other ranges are below 0.1."""
    others = [value for name, value in ranges.items() if name != "rotation"]
    return abs(ranges["rotation"] - pi / 2) < 0.2 * pi / 2 and max(others) < 0.1


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--passes", choices=list(_SETTINGS), default="running", help="[running]")
    parser.add_argument("--subset", type=int, default=10_000, metavar="N", help="training images [10000]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    parser.add_argument("--limit", type=float, default=inf, metavar="SECONDS", help="CPU time at most [no limit]")
    arguments = start(parser, given)
    torch.manual_seed(arguments.seed)
    recipe = lila.Recipe("mnist", transform="partially-rotated", subset=arguments.subset, seed=arguments.seed)
    task = lila.load_data(recipe, in_memory=True)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    started = time.process_time()
    history: list[dict[str, Any]] = []

    def end(record: lila.EpochRecord) -> None:
        history.append({"cpu seconds": time.process_time() - started, "ranges": dict(record.ranges)})
        if learned(record.ranges) or history[-1]["cpu seconds"] > arguments.limit:
            raise Ended

    settings = _SETTINGS[arguments.passes] | {"passes": arguments.passes, "seed": arguments.seed}
    with suppress(Ended):
        lila.fit(net, task.train, lila.Affine2d(), progress="silent", callbacks=[end], **settings)
    result = {"learned": learned(history[-1]["ranges"]), "epochs": len(history), **history[-1], "history": history}
    print_result(arguments, result)


if __name__ == "__main__":
    main()
