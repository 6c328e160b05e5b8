"""The evidence of a rotation at the weights that were trained for one value of it.

A network is trained while the range of the rotation is held, and all others are zero. Then the exact evidence of other
ranges of the rotation is computed, with the same weights and prior. It shows why a gradient does not lead from half of
a turn to the full one, and how much more evidence that has (`lila.training.full_turns`).

    python -m lila.benchmarks.full_turns --transform fully-rotated --at 1.62
"""

from collections.abc import Sequence
from math import pi

import torch

import lila
from lila.benchmarks.script import new_parser, print_result, start

_RANGES = (0.8, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, pi)


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--data", default="digits", help="a data set, as in `lila train` [digits]")
    parser.add_argument("--transform", default="fully-rotated", help="its version [fully-rotated]")
    parser.add_argument("--network", default="mlp", metavar="NAME", help="[mlp]")
    parser.add_argument("--subset", type=int, metavar="N", help="training images [all]")
    parser.add_argument("--at", type=float, default=1.62, metavar="X", help="range while it trains [1.62]")
    parser.add_argument("--epochs", type=int, metavar="N", help="[the default of lila train]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    recipe = lila.Recipe(arguments.data, transform=arguments.transform, subset=arguments.subset, seed=arguments.seed)
    task = lila.load_data(recipe, in_memory=True)
    assert isinstance(task.train, tuple), "it was read into memory"
    torch.manual_seed(arguments.seed)
    net = lila.make_model(arguments.network, task.shape, len(task.classes))
    augmentation = lila.Affine2d(["rotation"], init=arguments.at)
    settings = {"method": "fixed", "epochs": arguments.epochs, "seed": arguments.seed, "progress": "silent"}
    run = lila.fit(net, task.train, augmentation, **settings)
    evidence = lila.Evidence(run.model, run.likelihood, run.prior)
    found: list[dict[str, float]] = []
    for value in _RANGES:
        with torch.no_grad():
            augmentation.eta.fill_(value)
        estimate = evidence.estimate(task.train, audit=not found)
        found.append({"rotation": value, "evidence": estimate.value, **estimate.terms()})
    print_result(arguments, {"examples": run.examples, "ranges": found})


if __name__ == "__main__":
    main()
