"""The cost of the evidence and its gradient in the prior, beside laplace-torch on the same network and data.

The marginal-likelihood training of laplace-torch learns the prior alone: after an epoch it fits the Kronecker factors
of the plain network and takes steps on the log marginal likelihood. First the values and gradients of both libraries
are compared, for the Kronecker factors and for the full generalised Gauss-Newton of a small network, where they must
agree to rounding. Then both are timed on a plain network, and lila also on one that is averaged over S = 31
transformations.

    python -m lila.benchmarks.laplace_torch

Needs laplace-torch; `make bench-others` installs it and runs this.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from laplace.curvature import AsdlGGN
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lila
from laplace import Laplace  # type: ignore[attr-defined]
from lila.benchmarks.measuring import seconds
from lila.benchmarks.script import new_parser, print_result, start

Data = tuple[Tensor, Tensor]


def theirs(net: nn.Module, data: Data, structure: str) -> tuple[Tensor, Tensor]:
    """Return the log marginal likelihood by laplace-torch, and its gradient in a layerwise log precision."""
    layers = len(list(net.parameters()))
    log_precision = torch.zeros(layers, dtype=data[0].dtype, requires_grad=True)
    fitted = Laplace(net, "classification", "all", structure, backend=AsdlGGN)
    fitted.fit(DataLoader(TensorDataset(*data), batch_size=125))
    value = fitted.log_marginal_likelihood(log_precision.exp())
    (gradient,) = torch.autograd.grad(value, log_precision)
    return value.detach(), gradient


def ours(evidence: lila.Evidence, data: Data) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the log marginal likelihood by lila, and its gradients, also in ranges if there are any."""
    estimate = evidence.estimate(data)
    return torch.tensor(estimate.value), evidence.gradient(data, estimate)


def check(structure: str) -> float:
    """Return the largest difference in nats between the libraries' log marginal likelihoods, and their gradients.

    The network has no biases: lila gives weight and bias of a layer one Kronecker block, laplace-torch two.
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


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--examples", type=int, default=1000, metavar="N", help="[1000]")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    arguments = start(parser, given)
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
        "differences of values and gradients, nats": differences,
        "seconds of laplace-torch": unit,
        "times by laplace-torch's": {name: time / unit for name, time in times.items()},
    }
    print_result(arguments, result)


if __name__ == "__main__":
    main()
