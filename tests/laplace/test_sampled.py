"""The evidence from some batches alone: the oracle is that of all examples, and central differences."""

import pytest
import torch
from test_running import KINDS, STRUCTURES, batches, running

from cases import make_case
from lila.laplace.sampled import SampledEvidence


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_from_all_batches_it_is_the_evidence(structure: str, kind: str) -> None:
    case = make_case("mlp", n=5)
    made = running(case, structure, kind, microbatch=1)
    made.add(next(batches(case)), case.draw, 2)
    made.decompose(move_prior=False)
    before = {name: tensor.clone() for name, tensor in made.tensors().items()}
    sampled = SampledEvidence(made)
    for batch in batches(case):
        sampled.add(batch, case.draw, len(batch.index))
    expected = made.evidence.estimate(case.data, case.draw, audit=False).value
    assert sampled.value() == pytest.approx(expected)
    for name, tensor in made.tensors().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


def test_some_batches_stand_for_all() -> None:
    case = make_case("mlp", n=4)
    made, first = running(case), next(batches(case))
    made.add(first, case.draw, 2)
    made.decompose(move_prior=False)
    once, twice = SampledEvidence(made), SampledEvidence(made)
    once.add(first, case.draw, 2)
    for _ in range(2):
        twice.add(first, case.draw, 2)
    assert once.value() == pytest.approx(twice.value())
    again = SampledEvidence(made)
    again.load_tensors(once.tensors())
    assert again.value() == once.value()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_what_it_returns_of_a_batch_has_the_gradient_of_a_hyper_step(structure: str, kind: str) -> None:
    case = make_case("mlp", n=4)
    made, (first, second) = running(case, structure, kind, microbatch=1), batches(case)
    made.add(first, case.draw, 2)
    made.decompose(move_prior=False)
    eta = next(made.evidence.model.augmentation.parameters())
    start, step, differences = eta.detach().clone(), 1e-5, []
    for i in range(len(eta)):
        values = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                eta.copy_(start)
                eta[i] += sign * step
            values.append(SampledEvidence(made).add(second, case.draw, 2))
        differences.append((values[0] - values[1]) / (2 * step))
    with torch.no_grad():
        eta.copy_(start)
    gradient = made.add(second, case.draw, 2)["augmentation.eta"]
    torch.testing.assert_close(gradient, 4 / 2 * torch.tensor(differences, dtype=eta.dtype), rtol=1e-5, atol=1e-6)
