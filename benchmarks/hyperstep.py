"""Cost of a hyper-step in units of a parameter epoch with the same samples, as ratios measured in one run.

The unit is a forward, a backward to the weights and an optimiser step over the same examples, views and batch size.
Before timing, the gradient of each setting is checked against that of all columns.

    python benchmarks/hyperstep.py --examples 250 --repeats 3
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import lila

NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.Tanh(), nn.Linear(1000, 10)),
        31,
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 49, 256),
            nn.ReLU(),
            nn.Linear(256, 10),
        ),
        11,
    ),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "exact": {},
    "one probe in the gradient": {"gradient_probes": 1},
    "one probe in both": {"probes": 1, "gradient_probes": 1},
}


def parameter_epoch(model: lila.InvariantModel, data: tuple[Tensor, Tensor], batch: int) -> None:
    """One epoch of maximum a posteriori training (without the prior, whose cost is nothing)."""
    optimiser = torch.optim.SGD(model.net.parameters(), lr=1e-6)
    draw = lila.Draw()
    for index in torch.arange(len(data[0])).split(batch):
        noise = model.draw(draw, index, data[0].dtype)
        with torch.no_grad():
            views = model.views(data[0][index], noise)
        loss = nn.functional.cross_entropy(model.average(views, len(index)), data[1][index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of some work, after one run that is not counted."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure(network: str, examples: int, batch: int, repeats: int) -> dict[str, float]:
    """Seconds of the unit, and the ratio of both passes to it for each setting."""
    torch.manual_seed(0)
    make, samples = NETWORKS[network]
    net = make()
    data = torch.rand(examples, 1, 28, 28), torch.randint(10, (examples,))
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples)
    prior = lila.GaussianPrior(net)
    unit = median_seconds(lambda: parameter_epoch(model, data, batch), repeats)
    result = {"samples": float(samples), "parameter epoch, s": unit}
    exact: Tensor | None = None
    for name, setting in SETTINGS.items():
        evidence = lila.Evidence(model, lila.Categorical(), prior, microbatch=batch, **setting)
        estimate = evidence.estimate(data)
        gradient = evidence.gradient(data, estimate)["augmentation.eta"]
        exact = gradient if exact is None else exact
        error = float((gradient - exact).norm() / exact.norm())
        if error > 0.5:
            raise SystemExit(f"{network}, {name}: the gradient is off by {error:.0%}; not timed.")
        result[f"{name}: estimate"] = median_seconds(partial(evidence.estimate, data), repeats) / unit
        result[f"{name}: gradient"] = median_seconds(partial(evidence.gradient, data, estimate), repeats) / unit
        result[f"{name}: error of the gradient"] = error
    return result


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=250)
    parser.add_argument("--batch", type=int, default=125)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = {name: measure(name, arguments.examples, arguments.batch, arguments.repeats) for name in NETWORKS}
    record = {
        "settings": vars(arguments),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {arguments.threads} threads",
        "results": results,
    }
    if arguments.json:
        print(json.dumps(record, indent=2))
        return
    print(f"{arguments.examples} examples, batches of {arguments.batch}, {record['machine']}, torch {record['torch']}")
    for name, result in results.items():
        print(f"\n{name}")
        for key, value in result.items():
            print(f"  {key:<45}{value:8.3f}")


if __name__ == "__main__":
    main()
