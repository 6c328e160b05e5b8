"""How well the probabilities of the invariant network are calibrated, and what their error comes from.

For each seed lila and the same network without invariance learn from transformed images. On training and on test images
the calibration error is given beside the confidence gap: mean probability of the predicted class minus accuracy, which
is negative for a network that is too careful. It is also given after all logits were multiplied by the one number that
fits the test images best, which is 1 if the scale of the logits is right, and for several numbers of views in a
prediction. A third run trains its weights with as many views as it predicts with. The result of each run is one file of
the output folder, and runs whose file exists are not repeated.

    LILA_DATA=... python -m lila.benchmarks.calibration --out calibration --data mnist --transform translated --seeds 1
    python -m lila.benchmarks.calibration --out calibration --data digits --transform partially-rotated --seeds 3
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import lila
from lila.benchmarks.script import kept_result, new_parser, print_result, start
from lila.data.examples import Examples
from lila.training.scores import predict

KINDS: dict[str, dict[str, Any]] = {
    "lila": {},
    "non-invariant": {"method": "non-invariant"},
    "lila, 16 views in steps of the weights": {"weight_samples": 16},
}
_VIEWS = (1, 2, 4, 16)
_FACTORS = torch.logspace(-1, 1, 81, dtype=torch.float64)  # of the logits


def run(kind: str, recipe: lila.Recipe, epochs: int | None) -> dict[str, Any]:
    """Train, and look at the probabilities of the training and test images."""
    task = lila.load_data(recipe, in_memory=True)
    torch.manual_seed(recipe.seed)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    settings = KINDS[kind] | {"seed": recipe.seed, "epochs": epochs}
    made = lila.fit(net, task.train, lila.Affine2d(), test=task.test, progress="silent", **settings)
    assert task.test is not None
    train, test = Examples(task.train).tensors, Examples(task.test).tensors
    assert train is not None
    assert test is not None
    views = _VIEWS if made.ranges else (1,)
    return {
        "ranges": dict(made.ranges),
        "training images": confidence(made, *train, made.model.samples),
        "test images": confidence(made, *test, made.model.samples),
        "test images by views": {count: confidence(made, *test, count) for count in views},
        "precisions": dict(made.history[-1].precisions),
        "seconds": sum(record.seconds.total for record in made.history),
    }


@torch.no_grad()
def confidence(run: lila.Run, x: Tensor, y: Tensor, views: int) -> dict[str, float]:
    """Return how confident the predictions are for a number of views, and how right."""
    model = run.model.with_samples(views)
    f = torch.cat([predict(model, part) for part in x.split(500)]).double()
    found = run.likelihood.metrics(f, y)
    likelihoods = [float(-F.cross_entropy(factor * f, y)) for factor in _FACTORS]
    best = float(_FACTORS[likelihoods.index(max(likelihoods))])
    return {
        **found,
        "confidence gap": float(f.softmax(1).amax(1).mean()) - found["accuracy"],
        "best factor of the logits": best,
        "calibration error with it": run.likelihood.metrics(best * f, y)["calibration_error"],
    }


def main(given: Sequence[str] | None = None) -> None:
    """Do the runs that are missing, and print all results as JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--data", default="mnist", metavar="NAME", help="[mnist]")
    parser.add_argument("--subset", type=int, default=1250, metavar="N", help="training images [1250]")
    parser.add_argument("--epochs", type=int, metavar="N", help="[by the number of images]")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of seeds [3]")
    parser.add_argument("--transform", default="translated", metavar="NAME", help="version of the data [translated]")
    arguments = start(parser, given)
    results = {}
    for seed, kind in product(range(arguments.seeds), KINDS):
        words = [arguments.data, arguments.transform, str(arguments.subset), kind.replace(",", "").replace(" ", "-")]
        words += [f"seed{seed}"] if arguments.epochs is None else [f"epochs{arguments.epochs}", f"seed{seed}"]
        name = "-".join(words)
        recipe = lila.Recipe(arguments.data, transform=arguments.transform, subset=arguments.subset, seed=seed)
        make = partial(run, kind, recipe, arguments.epochs)
        results[name] = kept_result(arguments.out / f"{name}.json", make)
    print_result(arguments, results)


if __name__ == "__main__":
    main()
