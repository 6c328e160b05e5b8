"""Whether correlated ranges tell scales that move together from scales that do not, and what that is worth in evidence.

Two versions of a data set are learned, one whose images are scaled by the same factor along both axes and one whose
factors are independent, each with independent ranges and with correlated ones. Every run reports its ranges, the
correlation of the two scales, the evidence per example with its standard error, and the test scores.

    LILA_DATA=... python -m lila.benchmarks.correlated_ranges --data mnist --subset 5000
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import lila
from lila.benchmarks.script import new_parser, print_result, start
from lila.networks.plain import mlp

_VERSIONS = ("scaled", "independently-scaled")
_FAMILIES = {"independent": False, "correlated": True}


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--data", default="mnist", metavar="NAME", help="[mnist]")
    parser.add_argument("--versions", default=",".join(_VERSIONS), metavar="NAMES", help=f"[{','.join(_VERSIONS)}]")
    parser.add_argument("--families", default=",".join(_FAMILIES), metavar="NAMES", help=f"[{','.join(_FAMILIES)}]")
    parser.add_argument("--subset", type=int, default=5_000, metavar="N", help="training images [5000]")
    parser.add_argument("--hidden", type=int, default=1_000, metavar="N", help="hidden units of the network [1000]")
    parser.add_argument("--model", metavar="NAME", help="another network, as lila.make_model knows it")
    parser.add_argument("--epochs", type=int, metavar="N", help="[as lila.fit chooses]")
    parser.add_argument("--init", type=float, metavar="X", help="range from which all start [the family's own]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    runs = [
        learned(arguments, version, family)
        for version in arguments.versions.split(",")
        for family in arguments.families.split(",")
    ]
    print_result(arguments, {"runs": runs})


def _network(arguments: Any, shape: tuple[int, ...], classes: int) -> nn.Module:
    if arguments.model is not None:
        return lila.make_model(arguments.model, shape, classes)
    return mlp(shape, classes, arguments.hidden)


def learned(arguments: Any, version: str, family: str) -> dict[str, Any]:
    """Return what one family learns from one version of the data."""
    torch.manual_seed(arguments.seed)
    recipe = lila.Recipe(arguments.data, transform=version, subset=arguments.subset, seed=arguments.seed)
    task = lila.load_data(recipe, in_memory=True)
    augmentation = lila.Affine2d(init=arguments.init, correlated=_FAMILIES[family])
    started = time.process_time()
    run = lila.fit(
        _network(arguments, task.shape, len(task.classes)),
        task.train,
        augmentation,
        test=task.test,
        epochs=arguments.epochs,
        seed=arguments.seed,
        progress="silent",
    )
    seconds = time.process_time() - started
    x, y = augmentation.names.index("x-scale"), augmentation.names.index("y-scale")
    result = {
        "version": version,
        "family": family,
        "ranges": dict(run.ranges),
        "correlation of the scales": float(augmentation.correlations()[x, y]),
        "couplings": [coupling.text() for coupling in augmentation.couplings()],
        "evidence per example": run.evidence.value / run.examples,
        "its standard error": run.evidence.standard_error / run.examples,
        "test": run.test,
        "cpu seconds": seconds,
    }
    print(f"{version}, {family}: {result}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
