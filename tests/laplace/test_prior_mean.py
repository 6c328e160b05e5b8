"""A prior whose mean is the weights one starts from: evidence, gradient, fixed point and posterior, by the oracles."""

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import Case, make_case
from lila.model.prior import _LOG_BOUNDS


def flat(net: nn.Module) -> Tensor:
    return torch.cat([weight.flatten() for weight in oracles.trainable(net).values()])


def moved_case(network: str = "mlp", samples: int = 3) -> tuple[Case, lila.GaussianPrior, Tensor]:
    """A case whose weights have moved since its prior was made, the prior, and its mean as a vector."""
    case = make_case(network, samples=samples)
    prior = lila.GaussianPrior(case.net, precision=0.8, mean="start")
    mean = flat(case.net).clone()
    with torch.no_grad():
        for number, parameter in enumerate(prior.parameters()):
            parameter.add_(0.1 * number)
        for weight in case.net.parameters():
            if weight.requires_grad:
                weight.add_(0.1 * torch.randn_like(weight))
    return case, prior, mean


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("network", ["mlp", "partly_frozen"])
def test_the_evidence_and_its_gradient_are_those_of_the_oracle(network: str, samples: int, structure: str) -> None:
    case, prior, mean = moved_case(network, samples)
    evidence = lila.Evidence(case.model, case.likelihood, prior, structure=structure)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    expected = [term.item() for term in oracles.terms(case, prior, structure, mean=mean)]
    assert list(estimate.terms().values()) == pytest.approx(expected)
    found = evidence.gradient(case.data, estimate)
    for name, gradient in oracles.gradients(case, evidence, structure, mean=mean).items():
        torch.testing.assert_close(found[name], gradient)


def test_the_log_density_is_that_of_normals_about_the_mean() -> None:
    case, prior, mean = moved_case()
    normals = torch.distributions.Normal(mean, oracles.precision_vector(case, prior).rsqrt())
    torch.testing.assert_close(
        prior.log_prob(dict(case.net.named_parameters())), normals.log_prob(flat(case.net)).sum()
    )


def test_at_the_fixed_point_the_gradient_in_the_precisions_vanishes() -> None:
    case, prior, mean = moved_case()
    evidence = lila.Evidence(case.model, case.likelihood, prior, structure="full")
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    for _ in range(30):
        evidence.move_prior_to_fixed_point_(estimate.curvature)
    for name, gradient in oracles.gradients(case, evidence, "full", mean=mean).items():
        if name.startswith("prior."):
            assert gradient.abs() < 1e-6
    assert all(_LOG_BOUNDS[0] < p.item() < _LOG_BOUNDS[1] for p in prior.parameters())


def test_the_posterior_lies_about_the_weights_with_the_covariance_of_any_mean() -> None:
    """The mean of the prior moves the mode, which training finds; the curvature at the mode does not know of it."""
    case, prior, _ = moved_case()
    evidence = lila.Evidence(case.model, case.likelihood, prior, structure="full")
    curvature = evidence.estimate(case.data, case.draw, audit=False).curvature
    posterior = lila.Posterior(case.model, case.likelihood, prior, curvature)
    covariance = torch.linalg.inv(
        oracles.full_curvature(case).detach() + torch.diag(oracles.precision_vector(case, prior).detach())
    )
    drawn = posterior.sample(4_000, torch.Generator().manual_seed(0))
    rows = torch.cat([drawn[name].flatten(1) for name in oracles.trainable(case.net)], dim=1)
    torch.testing.assert_close(rows.mean(0), flat(case.net), atol=0.1, rtol=0)
    torch.testing.assert_close(torch.cov(rows.mT), covariance, atol=0.15, rtol=0)


def test_the_mean_is_a_copy_and_is_saved() -> None:
    net = nn.Linear(2, 1)
    prior = lila.GaussianPrior(net, mean="start")
    assert prior.weight_penalty(dict(net.named_parameters())) == 0
    with torch.no_grad():
        net.weight.add_(1)
    assert prior.weight_penalty(dict(net.named_parameters())).item() == pytest.approx(-1.0)
    other = lila.GaussianPrior(nn.Linear(2, 1), mean="start")
    other.load_state_dict(prior.state_dict())
    assert other.weight_penalty(dict(net.named_parameters())).item() == pytest.approx(-1.0)
    assert lila.GaussianPrior(net).state_dict().keys() == {"log_precisions.0"}


def test_another_mean_is_refused() -> None:
    with pytest.raises(lila.ArgumentError, match="no prior mean named 'one'"):
        lila.GaussianPrior(nn.Linear(1, 1), mean="one")
