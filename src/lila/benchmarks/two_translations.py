"""Why two translations of the same true range are learned as different ranges.

The images of a data set are shifted by up to 8 pixels along each axis, and the MLP learns all six ranges. Options
change one thing at a time: the images may be transposed, which shows whether a difference between the axes belongs to
the data or to the code, and views, starts and rates may be others.

    LILA_DATA=... python -m lila.benchmarks.two_translations --epochs 12 --transposed
"""

import sys
from collections.abc import Sequence
from typing import Any

import torch

import lila
from lila.benchmarks.script import new_parser, print_result, start
from lila.networks.plain import mlp


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--data", default="mnist", metavar="NAME", help="[mnist]")
    parser.add_argument("--subset", type=int, metavar="N", help="training images [all]")
    parser.add_argument("--transposed", action="store_true", help="exchange the axes of all images")
    parser.add_argument("--start", type=float, default=0.0, metavar="X", help="where both translations start [0]")
    parser.add_argument("--hidden", type=int, default=1_000, metavar="N", help="hidden units of the network [1000]")
    parser.add_argument("--epochs", type=int, default=12, metavar="N", help="[12]")
    parser.add_argument("--batch-size", type=int, default=250, metavar="N", help="[250]")
    parser.add_argument("--samples", type=int, default=16, metavar="S", help="views in hyper-steps, predictions [16]")
    parser.add_argument("--hyper-batch", type=int, default=32, metavar="N", help="examples of a hyper-step [32]")
    parser.add_argument("--weight-samples", type=int, default=2, metavar="S", help="views in steps of the weights [2]")
    parser.add_argument("--lr", type=float, default=0.005, metavar="X", help="learning rate of the weights [0.005]")
    parser.add_argument("--burn-in", type=int, metavar="N", help="epochs before ranges move [as lila.fit chooses]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    print_result(arguments, learned(arguments))


def learned(arguments: Any) -> dict[str, Any]:
    """Return what is learned with some options."""
    task = lila.load_data(
        lila.Recipe(arguments.data, transform="translated", subset=arguments.subset, seed=arguments.seed),
        in_memory=True,
    )
    assert isinstance(task.train, tuple)
    assert isinstance(task.test, tuple)
    parts = [(x.mT.contiguous() if arguments.transposed else x, y) for x, y in (task.train, task.test)]
    torch.manual_seed(arguments.seed)
    net = mlp(tuple(parts[0][0].shape[1:]), len(task.classes), arguments.hidden)
    augmentation = lila.Affine2d()
    with torch.no_grad():
        augmentation.eta[:2] = arguments.start
    names = ("epochs", "batch_size", "samples", "hyper_batch", "weight_samples", "lr", "burn_in", "seed")
    run = lila.fit(
        net,
        parts[0],
        augmentation,
        test=parts[1],
        progress="silent",
        callbacks=[lambda record: print(record.epoch, record.readable_ranges, file=sys.stderr, flush=True)],
        **{name: getattr(arguments, name) for name in names},
    )
    return {
        "ranges": dict(run.ranges),
        "evidence per example": run.evidence.value / run.examples,
        "its terms": {name: value / run.examples for name, value in run.evidence.terms().items()},
        "test": run.test,
    }


if __name__ == "__main__":
    main()
