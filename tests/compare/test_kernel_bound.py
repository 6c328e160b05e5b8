"""The bound on the evidence from a few examples, beside the evidence with full curvature."""

from itertools import combinations
from statistics import mean

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.compare.kernel_bound import evidence_bound
from lila.data.examples import Batch

COUNT = 5


@pytest.fixture(scope="module")
def evidence() -> lila.Evidence:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    model = lila.InvariantModel(net, lila.Affine2d(["rotation", "x-scale"], init=[0.5, 0.2]).double(), samples=3)
    prior = lila.GaussianPrior(net, precision=0.3)
    return lila.Evidence(model, lila.Categorical(), prior, structure="full")


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.rand(COUNT, 1, 3, 3, dtype=torch.float64), torch.arange(COUNT) % 3


def bound_of(evidence: lila.Evidence, data: tuple[Tensor, Tensor], chosen: tuple[int, ...]) -> Tensor:
    index = torch.tensor(chosen)
    return evidence_bound(evidence, Batch(index, data[0][index], data[1][index]), COUNT, lila.Draw(3))


def test_with_all_examples_it_is_the_evidence_and_so_is_its_gradient(
    evidence: lila.Evidence, data: tuple[Tensor, Tensor]
) -> None:
    bound = bound_of(evidence, data, tuple(range(COUNT)))
    estimate = evidence.estimate(data, lila.Draw(3))
    assert float(bound.detach()) == pytest.approx(estimate.value, rel=1e-10)
    wanted, parameters = evidence.gradient(data, estimate), evidence.hyperparameters()
    found = torch.autograd.grad(bound, list(parameters.values()))
    assert "augmentation.eta" in wanted
    for name, gradient in zip(parameters, found, strict=True):
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-7, atol=1e-9)


def test_the_mean_over_all_subsets_is_below_the_evidence_and_grows_with_their_size(
    evidence: lila.Evidence, data: tuple[Tensor, Tensor]
) -> None:
    exact = evidence.estimate(data, lila.Draw(3), audit=False).value
    means = [
        mean(float(bound_of(evidence, data, chosen).detach()) for chosen in combinations(range(COUNT), size))
        for size in range(1, COUNT + 1)
    ]
    assert means == sorted(means)
    assert means[0] < exact - 0.1
    assert means[-2] < exact
    assert means[-1] == pytest.approx(exact, rel=1e-10)
