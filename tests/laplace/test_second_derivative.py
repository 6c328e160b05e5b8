from dataclasses import replace

import pytest
import torch

import lila
from cases import make_case
from lila.augment.noise import Draw
from lila.curvature import Structure
from lila.data.examples import Data
from lila.laplace.second_derivative import second_derivative

STRUCTURES = ["kron", "diag", "full"]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", ["mlp", "cnn", "residual"])
def test_the_closed_form_of_a_slope_is_a_central_difference(network: str, structure: str) -> None:
    case = make_case(network, n=8)
    evidence = case.evidence(structure)
    curvature, precisions = evidence.estimate(case.data, case.draw, audit=False).curvature, evidence.prior.precisions()
    other = evidence.estimate(case.data, Draw(7, 7)).curvature  # in which nothing becomes negative on the way to it
    pairs = zip(curvature.tensors(), other.tensors(), strict=True)
    along = curvature.with_tensors([end - start for start, end in pairs])
    halfway = zip(curvature.tensors(), other.tensors(), strict=True)
    middle = curvature.with_tensors([(start + end) / 2 for start, end in halfway])
    found = middle.cotangent_slope(along, precisions)
    expected = Structure.cotangent_slope(middle, along, precisions)
    for one, two in zip(found.tensors(), expected.tensors(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-9 + 1e-5 * float(two.abs().max()))


def hessian_by_values(evidence: lila.Evidence, data: Data, draw: Draw, step: float) -> torch.Tensor:
    """Central differences of the exact gradient, with a curvature and a cotangent of its own at each shift."""
    eta = evidence.model.augmentation.eta
    assert isinstance(eta, torch.nn.Parameter)
    rows = []
    for i in range(len(eta)):
        gradients = []
        for sign in (1, -1):
            eta.data[i] += sign * step
            gradients.append(evidence.gradient(data, evidence.estimate(data, draw, audit=False))["augmentation.eta"])
            eta.data[i] -= sign * step
        rows.append((gradients[0] - gradients[1]) / (2 * step))
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["ggn", "ef"])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_it_is_the_derivative_of_the_exact_gradient(
    network: str, structure: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each half of the examples is all of them."""
    case = make_case(network, n=6, samples=3)
    evidence = case.evidence(structure, kind, microbatch=4)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    monkeypatch.setattr(Draw, "subset", lambda self, size, count: torch.arange(size).repeat_interleave(2))
    before = [p.detach().clone() for p in case.model.parameters()]
    found = second_derivative(evidence, case.data, estimate, examples=6, draw=case.draw, step=1e-4)
    expected = hessian_by_values(evidence, case.data, case.draw, 1e-4)
    torch.testing.assert_close(found, (expected + expected.mT) / 2, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    for parameter, value in zip(case.model.parameters(), before, strict=True):
        assert torch.equal(parameter, value)


def test_fewer_than_two_examples_and_fixed_ranges_are_refused() -> None:
    case = make_case("mlp", n=3)
    evidence = case.evidence("kron")
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    for examples in (1, 4):
        with pytest.raises(lila.ArgumentError, match="between 2 and 3 examples"):
            second_derivative(evidence, case.data, estimate, examples=examples, draw=case.draw)
    case.model.augmentation.requires_grad_(False)
    with pytest.raises(lila.ArgumentError, match="there are 0 tensors"):
        second_derivative(evidence, case.data, replace(estimate), examples=2, draw=case.draw)
