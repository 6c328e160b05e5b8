"""Kronecker factors in float32 against the same in float64, at prior precisions at which rounding begins to matter."""

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.curvature import Kron
from lila.curvature.kron_block import KronBlock, rounding_error

PRECISIONS = [1.0, 1e-2, 1e-4, 1e-6]


def factors_of_mlp(examples: int, smoothness: float, side: int = 100) -> tuple[Kron, Kron]:
    """The factors of an MLP in float32 and in float64; inputs are smooth, so that the spectrum of A falls fast."""
    torch.manual_seed(0)
    grid = torch.linspace(0, 1, side, dtype=torch.float64)
    kernel = (-0.5 * ((grid[:, None] - grid) / smoothness) ** 2).exp()
    x = torch.randn(examples, side, dtype=torch.float64) @ kernel
    y = torch.randint(5, (examples,))
    net = nn.Sequential(nn.Linear(side, 60), nn.ReLU(), nn.Linear(60, 5)).double()
    found = []
    for dtype in (torch.float32, torch.float64):
        model = lila.InvariantModel(net.to(dtype), lila.Compose(), samples=1)
        evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net))
        curvature = evidence.estimate((x.to(dtype), y), audit=False).curvature
        assert isinstance(curvature, Kron)
        found.append(curvature)
    return found[0], found[1]


def precisions(block: KronBlock, delta: float) -> dict[str, Tensor]:
    return {name: torch.tensor(delta, dtype=block.A.dtype) for name in block.layer.parameter_names}


def error(single: KronBlock, double: KronBlock, delta: float) -> float:
    return abs(float(single.log_det(precisions(single, delta)) - double.log_det(precisions(double, delta))))


def single_precision_error(single: KronBlock, double: KronBlock, delta: float) -> float:
    """The error if factors were decomposed in float32 whatever their size and the prior."""
    lam, mu = (torch.linalg.eigvalsh(factor).clamp(min=0).double() for factor in single.normalised)
    value = (lam[:, :, None] * mu[:, None, :] + delta).log().sum()
    return abs(float(value - double.log_det(precisions(double, delta))))


@pytest.mark.parametrize("smoothness", [0.05, 0.015])
@pytest.mark.parametrize("examples", [40, 400])
@pytest.mark.parametrize("delta", PRECISIONS)
def test_the_error_of_a_log_determinant_is_within_its_bound(examples: int, delta: float, smoothness: float) -> None:
    """With 40 examples A is of rank 40 of 101; with the smoother inputs of numerical rank 30 or so."""
    single, double = factors_of_mlp(examples, smoothness)
    for one, other in zip(single.blocks, double.blocks, strict=True):
        (lam, _), (mu, _) = one.eigen
        bound = float(rounding_error(lam, mu, torch.tensor(delta)))
        assert error(one, other, delta) <= max(bound, 1e-4)


@pytest.mark.parametrize(("delta", "largest"), [(1.0, 1e-3), (1e-2, 0.1), (1e-4, 0.2), (1e-6, 10.0)])
def test_errors_are_small_where_the_sums_themselves_are_precise(delta: float, largest: float) -> None:
    single, double = factors_of_mlp(400, 0.015)
    pairs = list(zip(single.blocks, double.blocks, strict=True))
    assert sum(error(*pair, delta) for pair in pairs) < largest
    if delta < 1e-2:  # then by much less than they would be
        assert sum(single_precision_error(*pair, delta) for pair in pairs) > 4 * largest


def test_factors_are_decomposed_in_float64_only_where_it_matters() -> None:
    block = factors_of_mlp(400, 0.015)[0].blocks[0]
    assert block.eigen_for(torch.tensor(1.0)) is block.eigen
    weak = block.eigen_for(torch.tensor(1e-6))
    assert {tensor.dtype for factor in weak for tensor in factor} == {torch.float64}


@pytest.mark.parametrize("delta", PRECISIONS)
def test_the_cotangent_is_that_of_float64_too(delta: float) -> None:
    """<P_A, A> counts the weights that the data determine."""
    single, double = factors_of_mlp(400, 0.015)
    for one, other in zip(single.blocks, double.blocks, strict=True):
        found, expected = (block.cotangent(precisions(block, delta)) for block in (one, other))
        assert found.A.dtype == found.G.dtype == torch.float32
        counted = (found.A.double() * one.A).sum(), (expected.A * other.A).sum()
        torch.testing.assert_close(*counted, rtol=1e-2, atol=0.0)
