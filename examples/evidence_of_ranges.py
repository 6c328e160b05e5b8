"""Draw why the evidence prefers the right range: fit, complexity and evidence against a range that is held.

Digits of scikit-learn are turned by up to 90 degrees. One network after the other is trained with rotations of a fixed
range, from no rotation to a half turn in both directions; only the weights and the prior precisions are learned. The
evidence is the fit (the log-likelihood of the training images) minus the complexity (what the weights cost). A larger
range makes the network simpler, and from some range on it makes the digits alike.

    python examples/evidence_of_ranges.py --out docs/images/evidence-of-ranges.png
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import radians
from pathlib import Path
from statistics import mean

import torch
from matplotlib.figure import Figure
from torch import nn

import lila

TRUE_RANGE = 90


@dataclass(frozen=True)
class Point:
    """What one network is worth, in nats per image.

    Attributes:
        degrees: the range of its rotations.
        fit: the log-likelihood of the training images.
        complexity: what the weights cost, the weight penalty and the Occam factor with their signs reversed.
        test: the log-likelihood of test images, which no training has seen.
    """

    degrees: float
    fit: float
    complexity: float
    test: float

    @property
    def evidence(self) -> float:
        """The log marginal likelihood."""
        return self.fit - self.complexity


def measure(degrees: float, images: int, epochs: int, seed: int) -> Point:
    """Train a network with rotations of up to so many degrees."""
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", subset=images, seed=seed))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(256, 100), nn.Tanh(), nn.Linear(100, 10))
    rotation, method = (lila.Affine2d(["rotation"], init=radians(degrees)), "fixed") if degrees else (None, "lila")
    run = lila.fit(
        net, task.train, rotation, test=task.test, method=method, epochs=epochs, seed=seed, progress="silent"
    )
    assert run.test is not None
    e = run.evidence
    return Point(
        degrees,
        e.log_likelihood / images,
        -(e.weight_penalty + e.occam_factor) / images,
        run.test["log_likelihood"],
    )


def draw(points: Sequence[Point], path: Path) -> None:
    """Draw the fit and the complexity on the left, and the evidence and the test images' likelihood on the right."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    parts, sums = figure.subplots(1, 2)
    at = [point.degrees for point in points]
    parts.plot(at, [point.fit for point in points], "o-", c="#0b5f8a", label="fit")
    parts.plot(at, [-point.complexity for point in points], "s-", c="#c2571a", label="minus complexity")
    parts.set(title="the two terms", ylabel="nats per image")
    sums.plot(at, [point.evidence for point in points], "o-", c="#222222", label="evidence = fit − complexity")
    sums.plot(at, [point.test for point in points], "^:", c="#5a8f3c", label="log-likelihood of test images")
    sums.set(title="their sum, beside unseen images", ylabel="nats per image")
    for axes in (parts, sums):
        axes.axvline(TRUE_RANGE, ls="--", c="#999999", lw=1)
        axes.set(xlabel="range of the rotations in the network", xticks=range(0, 181, 45), xlim=(-4, 184))
        axes.set_xticklabels([f"±{tick}°" for tick in range(0, 181, 45)])
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    low, high = sums.get_ylim()
    sums.annotate(" range of the data", (TRUE_RANGE, low + 0.02 * (high - low)), color="#777777", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/evidence-of-ranges.png"), help="the picture")
    parser.add_argument("--images", type=int, default=600, help="training images")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--ranges", default="0,22.5,45,67.5,90,135,180", help="degrees, separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, over which values are averaged")
    a = parser.parse_args()
    points = []
    for degrees in map(float, a.ranges.split(",")):
        found = [measure(degrees, a.images, a.epochs, seed) for seed in range(a.seeds)]
        fit, complexity, test = (mean(getattr(p, name) for p in found) for name in ("fit", "complexity", "test"))
        points.append(Point(degrees, fit, complexity, test))
        values = ", ".join(f"{p.evidence:.3f}" for p in found)
        print(
            f"±{degrees:5.1f}°   fit {fit:.3f}   complexity {complexity:.3f}   evidence {fit - complexity:.3f}", end=""
        )
        print(f" (seeds: {values})   test {test:.3f}", flush=True)
    draw(points, a.out)
    best = max(points, key=lambda point: point.evidence)
    print(f"\nMost evidence: ±{best.degrees:g}°. The images were turned by up to ±{TRUE_RANGE}°. Picture: {a.out}")


if __name__ == "__main__":
    main()
