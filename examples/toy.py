"""Learn a soft rotational invariance of points in the plane from the training data alone, and draw it.

The paper's toy example (Appendix J): 200 points of two classes, each turned about the origin by up to
60 degrees; a network with 50 hidden units, averaged over S = 100 random rotations whose range eta starts at zero. Each
step trains the weights by maximum a posteriori, and then eta and the prior precision on the evidence with the full
Gauss-Newton matrix. The learning rate of eta is 0.005 half turns, decayed by a cosine.

    python examples/toy.py --out out/toy
"""

import argparse
from math import degrees, pi
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import lila
from lila.data.toy import REACH, arcs


def learn(
    data: tuple[Tensor, Tensor], steps: int, samples: int, structure: str, seed: int
) -> tuple[lila.InvariantModel, list[float], list[float]]:
    """Train weights and hyperparameters together; returns the model and the trajectories of eta and the evidence."""
    torch.manual_seed(seed)
    x, y = data
    everyone = torch.arange(len(x))
    net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
    model = lila.InvariantModel(net, lila.Rotation2d(), samples, noise="independent")
    likelihood, prior = lila.Categorical(), lila.GaussianPrior(net, structure="scalar")
    evidence = lila.Evidence(model, likelihood, prior, structure=structure, microbatch=len(x))
    of_weights = torch.optim.Adam(net.parameters(), lr=0.1)
    of_prior = torch.optim.Adam(prior.parameters(), lr=0.1)
    of_eta = torch.optim.Adam(model.augmentation.parameters(), lr=0.005 * pi)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(of_eta, steps, eta_min=0.0001 * pi)
    ranges, values = [], []
    for step in range(steps):
        noise = model.draw(lila.Draw(seed, 2 * step), everyone, x.dtype)
        log_joint = likelihood.log_prob(model(x, noise), y).sum() + prior.log_prob(dict(net.named_parameters()))
        of_weights.zero_grad()
        (-log_joint / len(x)).backward()
        of_weights.step()

        of_prior.zero_grad()
        of_eta.zero_grad()
        estimate = evidence.estimate(data, lila.Draw(seed, 2 * step + 1))
        evidence.backward(data, estimate)
        of_prior.step()
        of_eta.step()
        decay.step()
        model.augmentation.saturate_()

        ranges.append(model.augmentation.ranges["rotation"])
        values.append(estimate.value)
        if step % 50 == 0 or step == steps - 1:
            learned = model.augmentation.readable_ranges((2,))["rotation"]
            print(f"step {step:4d}   evidence {estimate.value:8.1f} nats   rotation {learned}", flush=True)
    return model, ranges, values


def draw(
    model: lila.InvariantModel, data: tuple[Tensor, Tensor], ranges: list[float], values: list[float], path: Path
) -> None:
    """The points and the invariant network's predictions; eta over the steps, with the truth dashed; the evidence."""
    figure = Figure(figsize=(12, 3.7), layout="constrained")
    plane, eta, evidence = figure.subplots(1, 3)
    side = torch.linspace(-1.4, 1.4, 120)
    grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).reshape(-1, 2)
    model.eval()
    with torch.no_grad():
        probability = model(grid).softmax(1)[:, 1].reshape(120, 120)
    plane.contourf(side, side, probability, levels=20, cmap="RdBu_r", vmin=0, vmax=1, alpha=0.7)
    for label, colour in ((0, "#1f4e9c"), (1, "#a01c2c")):
        points = data[0][data[1] == label]
        plane.scatter(points[:, 0], points[:, 1], s=12, c=colour, edgecolors="white", linewidths=0.4)
    plane.set(title="data and predictions", xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    eta.plot([degrees(value) for value in ranges], c="#222222")
    eta.axhline(degrees(REACH), ls="--", c="#888888", lw=1)
    eta.annotate("range of the data", (len(ranges), degrees(REACH)), ha="right", va="bottom", color="#666666")
    eta.set(title="learned range of rotation", xlabel="step", ylabel="degrees", ylim=(0, None), xlim=(0, len(ranges)))
    evidence.plot(values, c="#222222")
    evidence.set(title="evidence", xlabel="step", ylabel="nats", xlim=(0, len(values)))
    late = values[len(values) // 10 :]
    evidence.set_ylim(min(late) - 5, max(late) + 5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/toy"), help="folder for the picture")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--structure", choices=["full", "kron", "diag"], default="full")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = arcs(seed=arguments.seed)
    model, ranges, values = learn(data, arguments.steps, arguments.samples, arguments.structure, arguments.seed)
    picture = arguments.out / "toy.png"
    draw(model, data, ranges, values, picture)
    print(
        f"\nLearned: rotation by up to {model.augmentation.readable_ranges((2,))['rotation']}; the data was turned by"
    )
    print(f"up to ±{degrees(REACH):.0f}°. Picture: {picture}")


if __name__ == "__main__":
    main()
