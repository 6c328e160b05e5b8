"""How much CPU time it takes until the rotation of turned MNIST is learned, while training and by full passes.

A run ends with the first epoch after which the range of the rotations is within a fifth of that of the data and all
others are below 0.1. Both have their own defaults; full passes take the paper's 31 independent samples.

    LILA_DATA=... python -m lila.benchmarks.time_to_range --passes running
    LILA_DATA=... python -m lila.benchmarks.time_to_range --passes probed
"""

import argparse
import json
import time
from math import pi
from typing import Any

import torch

import lila
from lila._util.memory import keep_heap
from lila.benchmarks import machine

_SETTINGS: dict[str, dict[str, Any]] = {"running": {}, "probed": {"noise": "independent", "samples": 31}}


class Learned(Exception):  # noqa: N818
    """The ranges are what they should be."""


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", choices=list(_SETTINGS), default="running")
    parser.add_argument("--subset", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    keep_heap()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    recipe = lila.Recipe("mnist", transform="partially-rotated", subset=arguments.subset, seed=arguments.seed)
    task = lila.load_data(recipe, in_memory=True)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    started = time.process_time()
    history: list[dict[str, Any]] = []

    def stop(record: lila.EpochRecord) -> None:
        history.append({"cpu seconds": time.process_time() - started, "ranges": dict(record.ranges)})
        others = [value for name, value in record.ranges.items() if name != "rotation"]
        if abs(record.ranges["rotation"] - pi / 2) < 0.2 * pi / 2 and max(others) < 0.1:
            raise Learned

    settings = _SETTINGS[arguments.passes] | {"passes": arguments.passes, "seed": arguments.seed}
    try:
        lila.fit(net, task.train, lila.Affine2d(), progress="silent", callbacks=[stop], **settings)
        learned = False
    except Learned:
        learned = True
    result = {"learned": learned, "epochs": len(history), **history[-1], "history": history}
    print(json.dumps(vars(arguments) | machine() | result, indent=2))


if __name__ == "__main__":
    main()
