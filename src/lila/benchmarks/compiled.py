"""Whether `torch.compile` makes an epoch of the weights faster: a compiled loop over images already transformed.

    python -m lila.benchmarks.compiled --network cnn

Needs a C++ compiler.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from lila._util.memory import keep_heap
from lila.augment.noise import Draw
from lila.benchmarks import JOBS, machine, ratios
from lila.benchmarks.networks import parameter_epoch, plain_loop, prepared
from lila.model.invariant import InvariantModel


def main() -> None:
    """Check, measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=list(JOBS), default="cnn")
    parser.add_argument("--examples", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    keep_heap()
    job = JOBS[arguments.network]
    model, data = prepared(job, arguments.examples - arguments.examples % job.batch)  # one shape, compiled once
    net = torch.compile(model.net)
    assert isinstance(net, nn.Module)
    compiled = InvariantModel(net, model.augmentation, job.samples)
    with torch.no_grad():
        views = model.views(data[0][:2], model.draw(Draw(), torch.arange(2), data[0].dtype))
        error = float((compiled.net(views) - model.net(views)).abs().max())
    if error > 1e-4:
        raise SystemExit(f"The compiled network differs by {error}, so it is not timed.")
    ways: dict[str, Callable[[], object]] = {
        "compiled loop": plain_loop(compiled, data, job.batch),
        "epoch of lila": partial(parameter_epoch, model, data, job.batch),
    }
    costs = ratios(list(ways.values()), plain_loop(model, data, job.batch), arguments.repeats)
    by_name = {f"{name} / plain loop": cost for name, cost in zip(ways, costs, strict=True)}
    print(json.dumps({"settings": vars(arguments) | machine(), **by_name}, indent=2))


if __name__ == "__main__":
    main()
