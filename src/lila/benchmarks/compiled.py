"""Whether `torch.compile` makes an epoch of the weights faster.

A compiled loop and an epoch of lila are timed beside a plain loop; both loops run over images that are transformed
already.

    python -m lila.benchmarks.compiled --network cnn

Needs a C++ compiler.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from lila.augment.noise import Draw
from lila.benchmarks.measuring import ratios
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.workloads import WORKLOADS, parameter_epoch, plain_loop, prepare
from lila.model.invariant import InvariantModel


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--network", choices=list(WORKLOADS), default="cnn", help="[cnn]")
    parser.add_argument("--examples", type=int, default=512, metavar="N", help="[512]")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    arguments = start(parser, given)
    workload = WORKLOADS[arguments.network]
    whole_batches = arguments.examples - arguments.examples % workload.batch  # of one shape, so it is compiled once
    model, data = prepare(workload, whole_batches)
    net = torch.compile(model.net)
    assert isinstance(net, nn.Module)
    compiled = InvariantModel(net, model.augmentation, workload.samples)
    with torch.no_grad():
        views = model.views(data[0][:2], model.draw(Draw(), torch.arange(2), data[0].dtype))
        error = float((compiled.net(views) - model.net(views)).abs().max())
    if error > 1e-4:
        raise SystemExit(f"The compiled network differs from the plain one by {error}, so it is not timed.")
    epochs: dict[str, Callable[[], object]] = {
        "compiled loop": plain_loop(compiled, data, workload.batch),
        "epoch of lila": partial(parameter_epoch, model, data, workload.batch),
    }
    costs = ratios(list(epochs.values()), plain_loop(model, data, workload.batch), arguments.repeats)
    print_result(arguments, {f"{name} / plain loop": cost for name, cost in zip(epochs, costs, strict=True)})


if __name__ == "__main__":
    main()
