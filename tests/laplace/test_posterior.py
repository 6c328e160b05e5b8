from math import pi

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import NETWORKS, Case, make_case
from dense import block_order
from lila.curvature import find_layers

STRUCTURES = ["kron", "diag", "full"]


def posterior(case: Case, structure: str) -> lila.Posterior:
    evidence = case.evidence(structure)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    return lila.Posterior(case.model, case.likelihood, evidence.prior, estimate.curvature)


def covariance(case: Case, made: lila.Posterior, structure: str) -> Tensor:
    """The dense posterior covariance, shape (P, P)."""
    H = oracles.curvature_matrix(case, structure).detach()
    return torch.linalg.inv(H + torch.diag(oracles.precision_vector(case, made.prior).detach()))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_outputs_are_those_of_the_linearised_network(network: str, structure: str) -> None:
    case = make_case(network, samples=2)
    made = posterior(case, structure)
    mean, found = made.outputs(case.x)
    torch.testing.assert_close(mean, case.model.eval()(case.x).detach())
    views = case.model.augmentation(case.x, case.model.fixed_noise(case.x)).detach()
    Sigma = covariance(case, made, structure)
    J = torch.stack([oracles.jacobian(case.net, v).detach() for v in views])
    torch.testing.assert_close(found, J @ Sigma @ J.mT)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", ["mlp", "residual", "cnn", "partly_frozen"])
def test_root_times_is_a_root_of_the_covariance(network: str, structure: str) -> None:
    case = make_case(network)
    made = posterior(case, structure)
    layers = find_layers(case.net)
    size = sum(layer.size for layer in layers)
    blocks = made.curvature.root_times(torch.eye(size, dtype=torch.float64), made.prior.precisions())
    R = torch.cat([block.flatten(1) for block in blocks], dim=1)[:, block_order(layers)].detach()  # rows are R e_i
    torch.testing.assert_close(R.mT @ R, covariance(case, made, structure))


def test_samples_have_the_posteriors_mean_and_spread() -> None:
    case = make_case("mlp")
    made = posterior(case, "kron")
    drawn = made.sample(4000, torch.Generator().manual_seed(0))
    rows = torch.cat([drawn[name].flatten(1) for name in oracles.trainable(case.net)], dim=1)
    mode = torch.cat([w.flatten() for w in oracles.trainable(case.net).values()])
    Sigma = covariance(case, made, "kron")
    error = (Sigma.diagonal() / 4000).sqrt()
    assert ((rows.mean(0) - mode).abs() < 5 * error).all()
    assert (rows.var(0) / Sigma.diagonal() - 1).abs().max() < 5 * (2 / 4000) ** 0.5


def test_probit_and_monte_carlo_agree_and_are_less_sure_than_the_mode() -> None:
    case = make_case("mlp", n=4)
    made = posterior(case, "full")
    probit = made.predict(case.x)
    sampled = made.predict(case.x, "monte-carlo", samples=20_000, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(probit.sum(1), torch.ones(4, dtype=torch.float64))
    assert (probit - sampled).abs().max() < 0.1
    mean, var = made.outputs(case.x)
    torch.testing.assert_close(probit, (mean / (1 + pi / 8 * var.diagonal(dim1=1, dim2=2)).sqrt()).softmax(1))
    assert (sampled.max(1).values < mean.softmax(1).max(1).values + 0.02).all()


def test_bernoulli_predictions_are_probabilities() -> None:
    case = make_case("mlp", "bernoulli")
    made = posterior(case, "kron")
    for link in ("probit", "monte-carlo"):
        p = made.predict(case.x, link)
        assert ((p > 0) & (p < 1)).all()
    with pytest.raises(lila.ArgumentError, match="no link named 'logit'"):
        made.predict(case.x, "logit")


@pytest.mark.parametrize("structure", ["kron", "full"])
def test_bayesian_linear_regression_is_exact(structure: str) -> None:
    """Mean and variance of a linear model are those of the Gaussian process with the same features."""
    torch.manual_seed(3)
    x, y = torch.randn(12, 3, dtype=torch.float64), torch.randn(12, 1, dtype=torch.float64)
    net = nn.Linear(3, 1).double()
    phi = torch.cat([x, torch.ones(12, 1, dtype=torch.float64)], dim=1)
    H = phi.mT @ phi / 0.25 + 2.0 * torch.eye(4, dtype=torch.float64)
    mode = torch.linalg.solve(H, phi.mT @ y / 0.25)
    with torch.no_grad():
        net.weight.copy_(mode[:3].mT)
        net.bias.copy_(mode[3])
    model = lila.InvariantModel(net, lila.Compose(), samples=1)
    likelihood, prior = lila.Gaussian(0.5).double(), lila.GaussianPrior(net, precision=2.0)
    estimate = lila.Evidence(model, likelihood, prior, structure=structure).estimate((x, y))
    made = lila.Posterior(model, likelihood, prior, estimate.curvature)
    kernel, noise = phi @ phi.mT / 2.0, 0.25 * torch.eye(12, dtype=torch.float64)
    gain = torch.linalg.solve(kernel + noise, kernel).mT
    torch.testing.assert_close(made.predict(x), gain @ y)
    expected = (kernel - gain @ kernel).diagonal()[:, None] + 0.25
    torch.testing.assert_close(made.variance(x), expected)


def test_a_posterior_of_the_last_layer_is_over_that_layer_alone() -> None:
    case = make_case("mlp")
    evidence = lila.Evidence(case.model, case.likelihood, case.prior(), layers="last")
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    made = lila.Posterior(case.model, case.likelihood, evidence.prior, estimate.curvature)
    assert set(made.sample(2)) == {"3.weight", "3.bias"}
    whole = posterior(case, "kron").outputs(case.x)[1].diagonal(dim1=1, dim2=2)
    assert (made.outputs(case.x)[1].diagonal(dim1=1, dim2=2) < whole).all()


class Own(lila.Categorical):
    """A likelihood of the user's own, which defines no prediction."""

    predict = lila.Likelihood.predict


def test_what_has_no_predictive_or_no_variance_is_refused_with_words() -> None:
    case = make_case("mlp")
    made = posterior(case, "kron")
    with pytest.raises(lila.ArgumentError, match="Only real targets"):
        made.variance(case.x)
    with pytest.raises(lila.ArgumentError, match=r"no predictive for a Own.*outputs\(x\)"):
        lila.Posterior(made.model, Own(), made.prior, made.curvature).predict(case.x)
