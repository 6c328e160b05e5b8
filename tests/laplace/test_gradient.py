from dataclasses import replace

import pytest
import torch

import lila
import oracles
from cases import AUGMENTATIONS, LIKELIHOODS, NETWORKS, make_case

STRUCTURES = ["kron", "diag", "full"]
KINDS = ["ggn", "ef"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradient_is_autograd_through_the_dense_evidence(network: str, samples: int, structure: str, kind: str) -> None:
    case = make_case(network, samples=samples)
    evidence = case.evidence(structure, kind, microbatch=2)
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    expected = oracles.gradients(case, evidence, structure, kind)
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian-per-output"])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", ["cnn", "residual", "attention"])
def test_gradient_of_each_network_under_other_likelihoods(network: str, structure: str, likelihood: str) -> None:
    case = make_case(network, likelihood, n=2)
    evidence = case.evidence(structure, microbatch=1)
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    expected = oracles.gradients(case, evidence, structure)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_gradient_is_that_of_central_differences(likelihood: str, augmentation: str, structure: str, kind: str) -> None:
    case = make_case("mlp", likelihood, samples=3, augmentation=augmentation)
    evidence = case.evidence(structure, kind, microbatch=2)
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    for name, parameter in evidence.hyperparameters().items():
        expected = oracles.central_differences(
            lambda: evidence.estimate(case.data, case.draw, audit=False).value, parameter
        )
        torch.testing.assert_close(found[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradient_does_not_depend_on_the_microbatch(structure: str) -> None:
    case = make_case("residual", "gaussian", n=5, augmentation="composed")
    results = []
    for microbatch in (1, 2, 5):
        evidence = case.evidence(structure, microbatch=microbatch)
        results.append(evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False)))
    for name in results[0]:
        torch.testing.assert_close(results[1][name], results[0][name])
        torch.testing.assert_close(results[2][name], results[0][name])


@pytest.mark.parametrize("prior", ["scalar", "diagonal"])
@pytest.mark.parametrize("structure", ["diag", "full"])
def test_gradient_for_each_prior(structure: str, prior: str) -> None:
    case = make_case("cnn")
    evidence = lila.Evidence(case.model, case.likelihood, case.prior(prior), structure=structure)
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    expected = oracles.gradients(case, evidence, structure)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])


@pytest.mark.parametrize("structure", STRUCTURES)
def test_gradients_of_all_subsets_average_to_the_whole(structure: str) -> None:
    case = make_case("mlp", "gaussian", n=3)
    evidence = case.evidence(structure)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    whole = evidence.gradient(case.data, estimate)
    seen: dict[int, dict[str, torch.Tensor]] = {}
    for seed in range(30):
        draw = SubsetBySeed.of(case.draw, seed)
        chosen = int(draw.subset(3, 1))
        changed = replace(estimate, draw=draw)
        seen[chosen] = evidence.gradient(case.data, changed, subset=1)
    assert set(seen) == {0, 1, 2}
    for name in whole:
        torch.testing.assert_close(torch.stack([g[name] for g in seen.values()]).mean(0), whole[name])


class SubsetBySeed(lila.Draw):
    """A draw whose subsets come from another seed than its noise."""

    subset_seed: int

    @classmethod
    def of(cls, draw: lila.Draw, subset_seed: int) -> "SubsetBySeed":
        made = cls(draw.seed, draw.epoch)
        object.__setattr__(made, "subset_seed", subset_seed)
        return made

    def subset(self, size: int, count: int) -> torch.Tensor:
        return lila.Draw(self.subset_seed).subset(size, count)


def test_backward_adds_the_gradient_of_the_negative_evidence() -> None:
    case = make_case("mlp", "gaussian")
    evidence = case.evidence("kron")
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    gradient = evidence.gradient(case.data, estimate)
    evidence.backward(case.data, estimate)
    evidence.backward(case.data, estimate)
    for name, parameter in evidence.hyperparameters().items():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, -2 * gradient[name])


def test_frozen_hyperparameters_are_left_out() -> None:
    case = make_case("mlp", "gaussian")
    case.model.augmentation.requires_grad_(False)
    evidence = case.evidence("kron")
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    expected = oracles.gradients(case, evidence, "kron")
    assert "augmentation.eta" not in found
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])


def test_a_learned_noise_climbs_the_evidence_to_that_of_the_data() -> None:
    """A linear model of pure noise: the evidence is largest near the noise's own standard deviation."""
    x = torch.randn(200, 3, dtype=torch.float64)
    y = 0.5 * torch.randn(200, 1, dtype=torch.float64)
    net = torch.nn.Linear(3, 1).double()
    torch.nn.init.zeros_(net.weight)
    torch.nn.init.zeros_(net.bias)
    likelihood = lila.Gaussian(2.0).double()
    model = lila.InvariantModel(net, lila.Compose(), samples=1)
    evidence = lila.Evidence(model, likelihood, lila.GaussianPrior(net))
    optimiser = torch.optim.Adam(likelihood.parameters(), lr=0.1)
    for _ in range(80):
        optimiser.zero_grad()
        evidence.backward((x, y), evidence.estimate((x, y)))
        optimiser.step()
    assert likelihood.sigma.item() == pytest.approx(y.std().item(), rel=0.05)


def test_eta_at_zero_has_a_gradient() -> None:
    case = make_case("mlp")
    model = lila.InvariantModel(case.net, lila.Affine2d(), samples=3).double()
    evidence = lila.Evidence(model, case.likelihood, case.prior())
    gradient = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))["augmentation.eta"]
    assert gradient.abs().min() > 0
