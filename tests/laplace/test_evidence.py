from itertools import pairwise
from math import log, pi

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import LIKELIHOODS, NETWORKS, Backwards, Case, case_of, make_case

STRUCTURES = ["kron", "diag", "full"]


def assert_terms_close(estimate: lila.Estimate, expected: tuple[Tensor, ...]) -> None:
    found = torch.tensor(list(estimate.terms().values()), dtype=torch.float64)
    torch.testing.assert_close(found, torch.stack(expected).detach())
    assert estimate.value == pytest.approx(sum(found.tolist()))


@pytest.mark.parametrize("kind", ["ggn", "ef"])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_each_term_is_the_oracles(network: str, structure: str, samples: int, kind: str) -> None:
    case = make_case(network, samples=samples)
    evidence = case.evidence(structure, kind)
    assert_terms_close(evidence.estimate(case.data, case.draw), oracles.terms(case, evidence.prior, structure, kind))


@pytest.mark.parametrize("kind", ["ggn", "ef"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_standard_data_augmentation_counts_each_view_as_a_part_of_an_example(structure: str, kind: str) -> None:
    case = make_case("cnn")
    evidence = case.evidence(structure, kind, average="log-likelihood", microbatch=2)
    estimate = evidence.estimate(case.data, case.draw)
    expected = oracles.terms(oracles.views_as_examples(case), evidence.prior, structure, kind, 1 / case.model.samples)
    assert_terms_close(estimate, expected)
    parameters = evidence.hyperparameters()
    gradients = torch.autograd.grad(torch.stack(expected).sum(), list(parameters.values()))
    found = evidence.gradient(case.data, estimate)
    for name, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(found[name], gradient)


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "diagonal"])
@pytest.mark.parametrize("structure", ["diag", "full"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_terms_for_each_likelihood_and_prior(likelihood: str, structure: str, prior: str) -> None:
    case = make_case("mlp", likelihood)
    made = case.prior(prior)
    evidence = lila.Evidence(case.model, case.likelihood, made, structure=structure)
    assert_terms_close(evidence.estimate(case.data, case.draw, audit=False), oracles.terms(case, made, structure))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("structure", ["kron", "full"])
def test_evidence_of_bayesian_linear_regression_is_exact_term_by_term(structure: str, samples: int) -> None:
    """At the mode, with phi the averaged inputs: log N(y; 0, sigma^2 I + phi phi' / delta), and each of its terms."""
    case = make_case("linear", "gaussian", samples=samples, n=8)
    net = nn.Linear(50, 1).double()
    case.model.net = nn.Sequential(nn.Flatten(), net)
    y = case.y[:, :1]
    delta, sigma = 0.8, float(case.likelihood.sigma.detach())  # type: ignore[operator]
    prior = lila.GaussianPrior(case.model.net, "scalar", precision=delta)
    phi = torch.cat([case.views().detach().flatten(2).mean(1), torch.ones(8, 1, dtype=torch.float64)], dim=1)
    H = phi.mT @ phi / sigma**2 + delta * torch.eye(51, dtype=torch.float64)
    mode = torch.linalg.solve(H, phi.mT @ y / sigma**2)[:, 0]
    with torch.no_grad():
        net.weight.copy_(mode[None, :-1])
        net.bias.copy_(mode[-1:])

    estimate = lila.Evidence(case.model, case.likelihood, prior, structure=structure).estimate((case.x, y), case.draw)

    residual = y[:, 0] - phi @ mode
    log_likelihood = -0.5 * (residual**2).sum() / sigma**2 - 8 * (log(sigma) + 0.5 * log(2 * pi))
    occam_factor = -0.5 * (torch.linalg.slogdet(H).logabsdet - 51 * log(delta))
    assert_terms_close(estimate, (log_likelihood, -0.5 * delta * mode @ mode, occam_factor))
    covariance = sigma**2 * torch.eye(8, dtype=torch.float64) + phi @ phi.mT / delta
    exact = torch.distributions.MultivariateNormal(torch.zeros(8, dtype=torch.float64), covariance).log_prob(y[:, 0])
    assert estimate.value == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_result_does_not_depend_on_the_microbatch_or_the_container(structure: str) -> None:
    case = make_case("cnn", n=5)
    dataset = torch.utils.data.TensorDataset(case.x, case.y)
    shuffled = torch.utils.data.DataLoader(dataset, batch_size=2, shuffle=True)
    expected = case.evidence(structure).estimate(case.data, case.draw).value
    for data in (case.data, dataset, shuffled):
        for microbatch in (1, 3, 100):
            evidence = case.evidence(structure, microbatch=microbatch)
            assert evidence.estimate(data, case.draw).value == pytest.approx(expected, rel=1e-12)


def test_asking_under_another_prior_changes_nothing_and_needs_no_pass() -> None:
    case = make_case("mlp")
    evidence = case.evidence("kron")
    estimate = evidence.estimate(case.data, case.draw)
    other = lila.GaussianPrior(case.net, "scalar", precision=5.0)
    changed = evidence.reassess(estimate, other)
    assert_terms_close(changed, oracles.terms(case, other, "kron"))
    assert evidence.reassess(changed, evidence.prior).terms() == estimate.terms()
    assert changed.curvature is estimate.curvature


def test_a_pass_leaves_the_network_as_it_was() -> None:
    case = make_case("partly_frozen")
    evidence = case.evidence("kron")
    before = {name: (p.clone(), p.requires_grad) for name, p in case.net.named_parameters()}
    evidence.gradient(case.data, evidence.estimate(case.data, case.draw))
    for name, p in case.net.named_parameters():
        assert torch.equal(p, before[name][0])
        assert p.requires_grad == before[name][1]
        assert p.grad is None
    assert not any(module._forward_hooks for module in case.net.modules())


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_subset_stands_for_the_whole(structure: str) -> None:
    """The same examples over and over: any subset, scaled up, gives the evidence of all."""
    case = make_case("mlp", samples=2, n=1)
    with torch.no_grad():
        case.model.augmentation.eta.zero_()  # type: ignore[operator]
    x, y = case.x.expand(6, -1, -1, -1), case.y.expand(6)
    evidence = case.evidence(structure)
    whole, part = evidence.estimate((x, y), case.draw), evidence.estimate((x, y), case.draw, subset=2)
    assert part.value == pytest.approx(whole.value)
    assert part.occam_factor == pytest.approx(whole.occam_factor)


def test_log_likelihood_of_subsets_averages_to_that_of_all() -> None:
    """Over many draws of subsets of one example, each is as likely, so their scaled sums average to the whole."""
    case = make_case("mlp", n=4)
    with torch.no_grad():
        case.model.augmentation.eta.zero_()  # type: ignore[operator]  # so that draws differ in their subsets alone
    evidence = case.evidence("diag")
    whole = evidence.estimate(case.data, case.draw).log_likelihood
    by_example = {
        int(draw.subset(4, 1)): evidence.estimate(case.data, draw, subset=1, audit=False).log_likelihood
        for draw in (lila.Draw(0, epoch) for epoch in range(30))
    }
    assert set(by_example) == {0, 1, 2, 3}
    assert sum(by_example.values()) / 4 == pytest.approx(whole)


def test_the_likelihood_bound_tightens_with_the_number_of_samples() -> None:
    """E log p(y | f_hat_S) grows with S towards log p(y | E f) (eq. 24)."""
    case = make_case("mlp", samples=1, n=4)

    def bound(samples: int, draws: int) -> tuple[float, float]:
        model = lila.InvariantModel(case.net, case.model.augmentation, samples)
        noise = [model.draw(lila.Draw(1, epoch), torch.arange(4), torch.float64) for epoch in range(draws)]
        with torch.no_grad():
            f = model(case.x.repeat(draws, 1, 1, 1), torch.cat(noise))
        values = case.likelihood.log_prob(f, case.y.repeat(draws)).reshape(draws, 4).sum(1)
        return float(values.mean()), float(values.std() / draws**0.5)

    levels = [bound(1, 800), bound(2, 800), bound(8, 400), bound(64, 200)]
    limit = bound(5000, 2)[0]
    for (low, low_error), (high, high_error) in pairwise(levels):
        assert low < high + 2 * (low_error**2 + high_error**2) ** 0.5
    assert levels[0][0] + 5 * levels[0][1] < limit
    assert levels[0][0] + 5 * levels[0][1] < levels[2][0]
    assert levels[-1][0] < limit + 3 * levels[-1][1]


@pytest.mark.parametrize("degrees", [0, 20, 45, 70, 90])
def test_the_log_determinant_of_two_data_is_that_of_the_angle_between_their_jacobians(degrees: int) -> None:
    """|H| = 1 + |J1|^2 + |J2|^2 + (1 - cos^2 phi) |J1|^2 |J2|^2, smallest for parallel ones (Appendix G)."""
    phi = torch.tensor(degrees * pi / 180, dtype=torch.float64)
    norms = 1.3, 0.7
    x = torch.stack([norms[0] * torch.tensor([1.0, 0.0]).double(), norms[1] * torch.stack([phi.cos(), phi.sin()])])
    net = nn.Linear(2, 1, bias=False).double()
    model = lila.InvariantModel(net, lila.Compose(), samples=1)
    evidence = lila.Evidence(model, lila.Gaussian(1.0).double(), lila.GaussianPrior(net), structure="full")
    found = evidence.estimate((x, torch.zeros(2, 1, dtype=torch.float64))).occam_factor
    one, two = norms[0] ** 2, norms[1] ** 2
    H = 1 + one + two + (1 - float(phi.cos()) ** 2) * one * two
    assert found == pytest.approx(-0.5 * log(H))
    parallel = -0.5 * log(1 + one + two)
    assert found <= parallel + 1e-12
    assert (found < parallel - 1e-3) == (degrees > 0)


class Quarters(lila.Rotation2d):
    """The four quarter turns in place of random angles: a whole orbit."""

    def elements(self, noise: Tensor) -> Tensor:
        angles = torch.arange(4, dtype=noise.dtype) * pi / 2
        c, s = angles.cos(), angles.sin()
        turns = torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2))
        return turns.expand(len(noise), 4, 2, 2)[:, : noise.shape[1]]


def test_two_points_of_one_orbit_count_as_one_for_an_invariant_network() -> None:
    """Their Jacobians are equal, so |H| is that of one datum counted twice, 1 + 2 |J|^2 at delta = sigma = 1."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    y = torch.zeros(2, 1, dtype=torch.float64)

    def occam_factor(augmentation: lila.Augmentation, samples: int) -> float:
        model = lila.InvariantModel(net, augmentation.double(), samples)
        evidence = lila.Evidence(model, lila.Gaussian(1.0).double(), lila.GaussianPrior(net), structure="full")
        return evidence.estimate((x, y)).occam_factor

    quarters = Quarters(init=1.0).double().requires_grad_(False)
    J = oracles.jacobian(net, quarters(x, torch.zeros(2, 4, 1).double())[0])
    assert occam_factor(quarters, 4) == pytest.approx(-0.5 * log(1 + 2 * J.square().sum().item()))
    J = torch.cat([oracles.jacobian(net, point[None]) for point in x])
    gram = torch.linalg.slogdet(torch.eye(2, dtype=torch.float64) + J @ J.mT).logabsdet
    assert occam_factor(lila.Compose(), 1) == pytest.approx(-0.5 * gram.item())


def test_empirical_fisher_differs_from_the_generalised_gauss_newton() -> None:
    case = make_case("mlp")
    ggn, ef = (case.evidence("kron", kind).estimate(case.data, case.draw).occam_factor for kind in ("ggn", "ef"))
    assert abs(ggn - ef) > 1e-3


def test_float32_gives_the_same_evidence_to_rounding() -> None:
    case = make_case("cnn")
    expected = case.evidence("kron").estimate(case.data, case.draw)
    case.model.float()
    single = Case(case.model, case.likelihood.float(), case.x.float(), case.y, case.draw)
    found = single.evidence("kron").estimate(single.data, single.draw)
    assert found.value == pytest.approx(expected.value, rel=1e-4)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_evidence_of_the_last_layer_is_that_of_the_rest_frozen(structure: str) -> None:
    case = make_case("cnn")
    last = lila.Evidence(case.model, case.likelihood, case.prior(), structure=structure, layers="last")
    estimate = last.estimate(case.data, case.draw)
    gradient = last.gradient(case.data, estimate)
    delta = last.prior.by_group()["5"].item()
    for name in ("0", "2"):
        case.net.get_submodule(name).requires_grad_(False)
    prior = lila.GaussianPrior(case.net, precision=delta)
    frozen = lila.Evidence(case.model, case.likelihood, prior, structure=structure)
    expected = frozen.estimate(case.data, case.draw)
    assert estimate.terms() == pytest.approx(expected.terms())
    wanted = frozen.gradient(case.data, expected)
    torch.testing.assert_close(gradient["augmentation.eta"], wanted["augmentation.eta"])
    torch.testing.assert_close(gradient["prior.log_precisions.2"], wanted["prior.log_precisions.0"])
    assert gradient["prior.log_precisions.0"] == 0


def test_the_last_layer_must_run_last() -> None:
    case = case_of(Backwards())
    evidence = lila.Evidence(case.model, case.likelihood, case.prior(), layers="last")
    with pytest.raises(lila.ModelError, match="names last is 'body', but 'head' runs after it"):
        evidence.estimate(case.data, case.draw)


def test_layers_are_all_or_the_last() -> None:
    case = make_case()
    with pytest.raises(lila.ArgumentError, match="no choice of layers named 'first'"):
        lila.Evidence(case.model, case.likelihood, case.prior(), layers="first")
