"""The evidence as a scalar that `backward` differentiates, and the posterior that follows from an estimate."""

import pytest
import torch

import lila
from cases import Case, make_case


def evidence_of(case: Case, structure: str = "kron") -> lila.Evidence:
    return case.evidence(structure, microbatch=2)


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_backward_gives_the_gradient_of_the_evidence(likelihood: str, structure: str) -> None:
    case = make_case("mlp", likelihood, samples=3)
    evidence = evidence_of(case, structure)
    estimate = evidence.estimate(case.data, case.draw)
    expected = evidence.gradient(case.data, estimate)
    value = evidence.log_marginal_likelihood(case.data, case.draw)
    assert value.dtype == torch.float64
    assert value.shape == ()
    assert value.item() == pytest.approx(estimate.value, rel=1e-12)
    (-2 * value).backward()
    for name, parameter in evidence.hyperparameters().items():
        torch.testing.assert_close(parameter.grad, -2 * expected[name])
    assert all(p.grad is None for p in case.net.parameters())


def test_it_is_a_loss_for_an_optimiser_and_a_term_of_others() -> None:
    case = make_case("mlp")
    evidence = evidence_of(case)
    parameters = evidence.hyperparameters()
    optimiser = torch.optim.Adam(parameters.values(), lr=0.05)
    values = []
    for _ in range(8):
        optimiser.zero_grad()
        value = evidence.log_marginal_likelihood(case.data, case.draw)
        (0.01 * parameters["augmentation.eta"].square().sum() - value).backward()
        optimiser.step()
        values.append(value.item())
    assert values[-1] > values[0]


def test_a_subset_has_the_gradient_of_the_same_examples() -> None:
    case = make_case("mlp", n=6)
    evidence = evidence_of(case)
    estimate = evidence.estimate(case.data, case.draw, 3)
    value = evidence.log_marginal_likelihood(case.data, case.draw, 3, audit=False)
    assert value.item() == estimate.value
    found = torch.autograd.grad(value, list(evidence.hyperparameters().values()))
    expected = evidence.gradient(case.data, estimate, 3)
    for gradient, name in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, expected[name])


def test_float32_gives_gradients_in_float32() -> None:
    case = make_case("mlp")
    net, x = case.net.float(), case.x.float()
    model = lila.InvariantModel(net, case.model.augmentation.float(), samples=2)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net))
    value = evidence.log_marginal_likelihood((x, case.data[1]))
    value.backward()
    gradient = model.augmentation.eta.grad
    assert isinstance(gradient, torch.Tensor)
    assert gradient.dtype == torch.float32


@pytest.mark.parametrize("what", ["weights", "hyperparameters"])
def test_what_changes_before_backward_is_noticed(what: str) -> None:
    case = make_case("mlp")
    evidence = evidence_of(case)
    value = evidence.log_marginal_likelihood(case.data, case.draw)
    changed = next(case.net.parameters()) if what == "weights" else evidence.hyperparameters()["augmentation.eta"]
    with torch.no_grad():
        changed.add_(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_without_hyperparameters_it_is_a_plain_number() -> None:
    case = make_case("mlp")
    evidence = evidence_of(case)
    for parameter in evidence.hyperparameters().values():
        parameter.requires_grad_(False)
    assert not evidence.log_marginal_likelihood(case.data, case.draw).requires_grad


def test_the_posterior_of_an_estimate() -> None:
    case = make_case("mlp")
    evidence = evidence_of(case)
    estimate = evidence.estimate(case.data, case.draw)
    made = lila.Posterior(case.model, case.likelihood, evidence.prior, estimate.curvature)
    torch.testing.assert_close(evidence.posterior(estimate).predict(case.x), made.predict(case.x))
