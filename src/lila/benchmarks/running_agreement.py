"""Whether learning while training finds the same ranges as exact passes after each epoch.

For each version of MNIST and each seed, one run learns by `passes="running"` and one by `"exact"`, with the same number
and kind of views in hyper-steps. At the end of each run the exact gradient of the evidence in the ranges is computed a
few times with other noise: where ranges have converged it must be zero within its noise. Beside it stand the gradient
with factors and their derivative from different noise, and, for running passes, the mean of the gradients that the
hyper-steps saw in the last third of the run. The result of each run is one file of the output folder, and runs whose
file exists are not repeated.

    LILA_DATA=... python -m lila.benchmarks.running_agreement --out agreement
    LILA_DATA=... python -m lila.benchmarks.running_agreement --out agreement --passes running --epochs 50
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

import lila
from lila.augment.noise import Draw
from lila.benchmarks.script import kept_result, new_parser, print_result, start
from lila.data.examples import Batch
from lila.laplace.running import RunningEvidence

_DATA_VERSIONS = ("partially-rotated", "translated", "scaled")
_EXACT: dict[str, Any] = {
    "passes": "exact",
    "weight_samples": 2,
    "batch_size": 62,
    "epochs": 50,
    "burn_in": 5,
    "eta_lr": 0.1,
    "eta_lr_end": 0.02,
    "precision_steps": "fixed-point",
}
"""Settings of exact passes. There are fewer hyper-steps, so each is larger, also at the end, where the best range moves
while the weights settle. The prior moves as in running passes."""


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs that are compared.

    Attributes:
        version: the version of the data.
        seed: the seed of the data, the network and the noise.
        passes: the kind of passes by which it learns.
        epochs: the number of epochs; None for the default of running passes, and for 50 of exact ones.
    """

    version: str
    seed: int
    passes: str
    epochs: int | None = None

    def path(self, folder: Path) -> Path:
        """Return the file of its result in a folder."""
        words = [self.version, str(self.seed), self.passes]
        words += [] if self.epochs is None else [f"epochs{self.epochs}"]
        return folder / f"{'-'.join(words)}.json"

    def run(self, subset: int, gradients: int) -> dict[str, Any]:
        """Train on a number of images, and compute the exact gradient at the end for several draws of the noise."""
        torch.manual_seed(self.seed)
        recipe = lila.Recipe("mnist", transform=self.version, subset=subset, seed=self.seed)
        task = lila.load_data(recipe, in_memory=True)
        net = lila.make_model("mlp", task.shape, len(task.classes))
        settings = (_EXACT if self.passes == "exact" else {}) | {"seed": self.seed}
        settings |= {} if self.epochs is None else {"epochs": self.epochs}
        with gradients_of_hyper_steps() as seen:
            trained = lila.fit(net, task.train, lila.Affine2d(), test=task.test, progress="silent", **settings)
        found: dict[str, Any] = {
            "ranges": dict(trained.ranges),
            "test": trained.test,
            "evidence": trained.evidence.value,
            "seconds": sum(record.seconds.total for record in trained.history),
        }
        found["gradient"] = exact_gradient(trained, task.train, subset, gradients)
        found["gradient, fresh noise"] = exact_gradient(trained, task.train, subset, gradients, fresh=True)
        if seen:
            late = [gradient.tolist() for gradient in seen[2 * len(seen) // 3 :]]
            found["gradient in hyper-steps"] = _by_range(trained, late, len(late) ** 0.5)
        return found


@contextmanager
def gradients_of_hyper_steps() -> Iterator[list[Tensor]]:
    """Yield a list that gets the gradient per example in each range of every running hyper-step that moves them."""
    seen: list[Tensor] = []
    original = RunningEvidence.add

    def noted(self: RunningEvidence, batch: Batch, draw: Draw, count: int, fade: float = 1.0) -> dict[str, Tensor]:
        gradients = original(self, batch, draw, count, fade)
        if "augmentation.eta" in gradients:
            eta = self.evidence.model.augmentation.eta
            seen.append(gradients["augmentation.eta"] * eta.detach().sign() / self.examples)  # type: ignore[operator]
        return gradients

    RunningEvidence.add = noted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        RunningEvidence.add = original  # type: ignore[method-assign]


def exact_gradient(
    run: lila.Run, data: Any, examples: int, times: int, *, fresh: bool = False
) -> dict[str, dict[str, float]]:
    """Return the exact gradient of the evidence per example in each range: mean and spread over draws of the noise.

    Args:
        run: the run, with the weights of its end.
        data: the training images.
        examples: their number.
        times: the number of draws of the noise.
        fresh: take the factors from one draw of the noise and their derivative from the next, as running hyper-steps
            do, and not both from the same draw.
    """
    evidence = lila.Evidence(run.model, run.likelihood, run.prior)
    found = []
    for epoch in range(times):
        estimate = evidence.estimate(data, lila.Draw(1_000, epoch))
        if fresh:
            estimate = replace(estimate, draw=lila.Draw(1_000, epoch + 1))
        gradient = evidence.gradient(data, estimate)["augmentation.eta"]
        found.append((gradient * run.model.augmentation.eta.sign() / examples).tolist())  # type: ignore[operator]
    return _by_range(run, found)


def _by_range(run: lila.Run, found: Sequence[Sequence[float]], divisor: float = 1.0) -> dict[str, dict[str, float]]:
    """Return the mean of each range's values, and their standard deviation by a divisor."""
    columns = zip(run.ranges, zip(*found, strict=True), strict=True)
    return {name: {"mean": mean(values), "spread": stdev(values) / divisor} for name, values in columns}


def main(given: Sequence[str] | None = None) -> None:
    """Do the runs that are missing, and print all results as JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    versions = f"versions of the data [{','.join(_DATA_VERSIONS)}]"
    parser.add_argument("--versions", default=",".join(_DATA_VERSIONS), metavar="NAMES", help=versions)
    parser.add_argument("--subset", type=int, default=1250, metavar="N", help="training images [1250]")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of seeds [3]")
    parser.add_argument("--gradients", type=int, default=4, metavar="N", help="draws of the noise per gradient [4]")
    parser.add_argument("--passes", default="running,exact", metavar="NAMES", help="kinds of passes [running,exact]")
    parser.add_argument("--epochs", type=int, metavar="N", help="[100 for running passes, 50 for exact ones]")
    arguments = start(parser, given)
    runs = [
        ComparedRun(version, seed, passes, arguments.epochs)
        for passes in arguments.passes.split(",")
        for seed in range(arguments.seeds)
        for version in arguments.versions.split(",")
    ]
    results = {}
    for run in runs:
        make = partial(run.run, arguments.subset, arguments.gradients)
        results[run.path(Path()).stem] = kept_result(run.path(arguments.out), make)
    print_result(arguments, results)


if __name__ == "__main__":
    main()
