"""The part of the work that laplace-torch does too, on the same network and data in the same run.

Its marginal-likelihood training learns the prior alone: after an epoch it fits the Kronecker factors of the plain
network and takes steps on the log marginal likelihood. Both libraries are first checked against each other, value and
gradient, by the Kronecker factors and the full generalised Gauss-Newton of a small network, where they must agree to
rounding. Then the factors and the gradient in the prior are timed: of a plain network, and, for lila, also of one that
is averaged over S = 31 transformations.

    make bench-others
"""

import argparse
import json
from collections.abc import Callable
from functools import partial

import torch
from laplace.curvature import AsdlGGN
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lila
from laplace import Laplace  # type: ignore[attr-defined]
from lila._util.memory import keep_heap
from lila.benchmarks import machine, seconds

Data = tuple[Tensor, Tensor]


def theirs(net: nn.Module, data: Data, structure: str) -> tuple[Tensor, Tensor]:
    """The log marginal likelihood by laplace-torch, and its gradient in a layerwise log precision."""
    layers = len(list(net.parameters()))
    log_precision = torch.zeros(layers, dtype=data[0].dtype, requires_grad=True)
    fitted = Laplace(net, "classification", "all", structure, backend=AsdlGGN)
    fitted.fit(DataLoader(TensorDataset(*data), batch_size=125))
    value = fitted.log_marginal_likelihood(log_precision.exp())
    (gradient,) = torch.autograd.grad(value, log_precision)
    return value.detach(), gradient


def ours(evidence: lila.Evidence, data: Data) -> tuple[Tensor, dict[str, Tensor]]:
    """The same by lila; with samples and ranges to learn, the gradient in these too."""
    estimate = evidence.estimate(data)
    return torch.tensor(estimate.value), evidence.gradient(data, estimate)


def check(structure: str) -> float:
    """The largest difference of the two log marginal likelihoods and of their gradients in the prior, in nats.

    Of a small network without biases: lila gives weight and bias of a layer one Kronecker block, laplace-torch two.
    """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)).double()
    data = torch.rand(20, 1, 4, 4, dtype=torch.float64), torch.arange(20) % 3
    plain = lila.InvariantModel(net, lila.Compose(), samples=1)
    evidence = lila.Evidence(plain, lila.Categorical(), lila.GaussianPrior(net), structure=structure)
    value, gradient = theirs(net, data, structure)
    our_value, our_gradients = ours(evidence, data)
    layers = [our_gradients[f"prior.log_precisions.{i}"].reshape(()) for i in range(len(gradient))]
    difference = float((torch.stack([value, *gradient]) - torch.stack([our_value, *layers])).abs().max())
    if difference > 1e-5:
        raise SystemExit(f"The two libraries differ by {difference} nats ({structure}), so they are not timed.")
    return difference


def main() -> None:
    """Check, measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    keep_heap()
    differences = {structure: check(structure) for structure in ("kron", "full")}
    torch.manual_seed(0)
    net = lila.make_model("mlp", (1, 28, 28), 10)
    data = torch.rand(arguments.examples, 1, 28, 28), torch.randint(10, (arguments.examples,))
    make = partial(lila.Evidence, likelihood=lila.Categorical(), prior=lila.GaussianPrior(net), microbatch=125)
    plain = make(lila.InvariantModel(net, lila.Compose(), samples=1))
    invariant = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=31)
    exact, probed = make(invariant), make(invariant, probes=1, gradient_probes=1)
    work: dict[str, Callable[[], object]] = {
        "laplace-torch, prior alone": partial(theirs, net, data, "kron"),
        "lila, prior alone": partial(ours, plain, data),
        "lila, prior and six ranges, S = 31, exact": partial(ours, exact, data),
        "lila, prior and six ranges, S = 31, probed": partial(ours, probed, data),
    }
    times = {name: seconds(run, arguments.repeats) for name, run in work.items()}
    unit = times["laplace-torch, prior alone"]
    result = {
        "settings": vars(arguments) | machine(),
        "differences of values and gradients, nats": differences,
        "seconds of laplace-torch": unit,
        "times by laplace-torch's": {name: time / unit for name, time in times.items()},
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
