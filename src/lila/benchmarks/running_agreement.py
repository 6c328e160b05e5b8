"""Whether learning while training finds the ranges that exact passes find, and where it stops.

For each version of MNIST and each seed, one run learns by `passes="running"` and one by `"exact"`, with the same number
and kind of views in hyper-steps. At the end of both the exact gradient of the evidence in the ranges is taken a
few times with other noise: where ranges have settled it must be zero within its noise. Each run is one file of the
output folder, and what is there already is not done again.

    LILA_DATA=... python -m lila.benchmarks.running_agreement --out agreement
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

import lila
from lila._util.memory import keep_heap
from lila.benchmarks import machine
from lila.training.checkpoint import write_json

VERSIONS = ("partially-rotated", "translated", "scaled")
_EXACT: dict[str, Any] = {
    "passes": "exact",
    "weight_samples": 2,
    "batch_size": 62,
    "epochs": 50,
    "burn_in": 5,
    "eta_lr": 0.1,
    "eta_lr_end": 0.002,
    "precision_steps": "fixed-point",
}
"""A hyper-step after each epoch: there are fewer of them, so each is larger. The prior moves as in running passes."""


@dataclass(frozen=True)
class Piece:
    """A run.

    Attributes:
        version: of the data.
        seed: of everything.
        passes: by which it learns.
    """

    version: str
    seed: int
    passes: str

    def path(self, folder: Path) -> Path:
        """Where its result is."""
        return folder / f"{self.version}-{self.seed}-{self.passes}.json"

    def run(self, subset: int, gradients: int) -> dict[str, Any]:
        """Train, and take the exact gradient at the end."""
        torch.manual_seed(self.seed)
        recipe = lila.Recipe("mnist", transform=self.version, subset=subset, seed=self.seed)
        task = lila.load_data(recipe, in_memory=True)
        net = lila.make_model("mlp", task.shape, len(task.classes))
        settings = _EXACT if self.passes == "exact" else {}
        made = lila.fit(net, task.train, lila.Affine2d(), test=task.test, progress="silent", seed=self.seed, **settings)
        found: dict[str, Any] = {
            "ranges": dict(made.ranges),
            "test": made.test,
            "evidence": made.evidence.value,
            "seconds": sum(record.seconds.total for record in made.history),
        }
        found["gradient"] = exact_gradient(made, task.train, subset, gradients)
        return found


def exact_gradient(run: lila.Run, data: Any, examples: int, times: int) -> dict[str, dict[str, float]]:
    """The exact gradient of the evidence per example in each range, its mean over draws of the noise and its spread."""
    evidence = lila.Evidence(run.model, run.likelihood, run.prior)
    found = []
    for epoch in range(times):
        gradient = evidence.gradient(data, evidence.estimate(data, lila.Draw(1_000, epoch)))["augmentation.eta"]
        found.append((gradient * run.model.augmentation.eta.sign() / examples).tolist())  # type: ignore[operator]
    columns = zip(run.ranges, zip(*found, strict=True), strict=True)
    return {name: {"mean": mean(values), "spread": stdev(values)} for name, values in columns}


def main() -> None:
    """Run what is missing, and print everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--subset", type=int, default=1250)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--gradients", type=int, default=4, help="draws of the noise in which the gradient is taken")
    parser.add_argument("--passes", default="running,exact")
    arguments = parser.parse_args()
    keep_heap()
    kinds = arguments.passes.split(",")
    pieces = [Piece(v, seed, passes) for passes in kinds for seed in range(arguments.seeds) for v in VERSIONS]
    for piece in pieces:
        if not piece.path(arguments.out).exists():
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_json(piece.path(arguments.out), piece.run(arguments.subset, arguments.gradients) | machine())
    print(json.dumps({p.path(Path()).stem: json.loads(p.path(arguments.out).read_text()) for p in pieces}, indent=2))


if __name__ == "__main__":
    main()
