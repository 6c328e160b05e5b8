"""Factors and log-likelihoods from few independent views that are, on average, those of many."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import LIKELIHOODS, NETWORKS, SIDE, Case, make_case
from dense import dense
from lila.augment.noise import NoiseName
from lila.curvature import CurvatureSum, Kron, Sharing, Structure, UnbiasedKron
from lila.curvature.kron_block import KronBlock
from lila.curvature.moments import Outer
from lila.data.examples import Batch, Examples
from lila.laplace.passes import pull_back
from lila.laplace.running import RunningEvidence

GRID = torch.tensor([-0.9, 0.1, 0.7], dtype=torch.float64)  # over which noise is uniform, where it is enumerated


def independent(network: str = "mlp", likelihood: str = "categorical", samples: int = 3, **more: Any) -> Case:
    case = make_case(network, likelihood, samples, **more)
    case.model.noise = NoiseName.INDEPENDENT
    return case


def curvature(case: Case, kind: str = "ggn", **settings: Any) -> Structure:
    return case.evidence("kron", kind, unbiased=True, **settings).estimate(case.data, case.draw, audit=False).curvature


class GivenNoise(lila.InvariantModel):
    """An invariant network whose noise (n, s, k) is given."""

    def __init__(self, net: nn.Module, augmentation: lila.Augmentation, noise: Tensor) -> None:
        super().__init__(net, augmentation, noise.shape[1], "independent")
        self.given = noise

    def draw(self, draw: lila.Draw, index: Tensor, dtype: torch.dtype) -> Tensor:
        return self.given[index].to(dtype)


def enumerated(network: str, likelihood: str, samples: int) -> tuple[Case, Case]:
    """One example with all tuples of views from a grid of noise, each as an example, and with all views at once."""
    case = make_case(network, likelihood, n=1)
    rotation = lila.Affine2d(["rotation"], init=[1.2]).double()
    noises = (
        torch.tensor(list(product(GRID.tolist(), repeat=samples)), dtype=torch.float64)[:, :, None],
        GRID[None, :, None],
    )
    tuples, whole = (
        Case(
            GivenNoise(case.net, rotation, noise),
            case.likelihood,
            case.x.expand(len(noise), -1, -1, -1),
            case.y.expand(len(noise), *case.y.shape[1:]),
            case.draw,
        )
        for noise in noises
    )
    return tuples, whole


def blocks(structure: Structure) -> tuple[KronBlock, ...]:
    """Those that noise biases: of layers whose positions are summed over in the factors."""
    assert isinstance(structure, Kron)
    return tuple(block for block in structure.blocks if block.layer.rule.sharing is Sharing.EXPAND)


def gap(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("samples", [2, 3])
@pytest.mark.parametrize("network", ["mlp", "cnn", "shared", "residual", "attention"])
def test_factors_average_to_those_of_all_views(network: str, samples: int) -> None:
    tuples, whole = enumerated(network, "gaussian", samples)
    count = len(tuples.x)
    unbiased = blocks(curvature(tuples))
    plain, limit = (blocks(case.evidence("kron").estimate(case.data).curvature) for case in (tuples, whole))
    for found, expected in zip(unbiased, limit, strict=True):
        torch.testing.assert_close(found.A / count, expected.A)
        torch.testing.assert_close(found.G / count, expected.G)
        torch.testing.assert_close(found.positions / count, expected.positions)
    assert min(gap(found.A / count, expected.A) for found, expected in zip(plain, limit, strict=True)) > 0.01
    but_head = zip(plain[:-1], limit[:-1], strict=True)  # where g is the same for all views
    assert min(gap(found.G / count, expected.G) for found, expected in but_head) > 1e-4


@pytest.mark.parametrize("samples", [2, 3])
@pytest.mark.parametrize("likelihood", ["gaussian", "gaussian-per-output"])
def test_log_likelihoods_average_to_that_of_all_views(likelihood: str, samples: int) -> None:
    tuples, whole = enumerated("cnn", likelihood, samples)
    limit = whole.evidence("kron").log_likelihood(whole.data).total
    evidence = tuples.evidence("kron", unbiased=True)
    for total in (evidence.log_likelihood(tuples.data).total, evidence.estimate(tuples.data).log_likelihood):
        assert total / len(tuples.x) == pytest.approx(limit, rel=1e-12)
    assert tuples.evidence("kron").log_likelihood(tuples.data).total / len(tuples.x) < limit - 0.01


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
def test_log_likelihoods_of_classes_are_unbiased_to_second_order(likelihood: str) -> None:
    tuples, whole = enumerated("mlp", likelihood, samples=3)
    limit = whole.evidence("kron").log_likelihood(whole.data).total
    plain, unbiased = (
        tuples.evidence("kron", unbiased=choice).log_likelihood(tuples.data).total / len(tuples.x)
        for choice in (False, True)
    )
    assert abs(unbiased - limit) < 0.3 * abs(plain - limit)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_what_the_log_likelihood_gains_is_the_oracles(likelihood: str) -> None:
    case = independent("mlp", likelihood, n=4)
    plain, unbiased = (
        case.evidence("kron", unbiased=choice).log_likelihood(case.data, case.draw).total for choice in (False, True)
    )
    assert unbiased - plain == pytest.approx(float(oracles.lost_to_noise(case).sum().detach()), rel=1e-9)


@pytest.mark.parametrize("kind", ["ggn", "ef"])
@pytest.mark.parametrize("network", NETWORKS)
def test_value_is_the_oracles(network: str, kind: str) -> None:
    case = independent(network)
    found = dense(curvature(case, kind, microbatch=2))
    torch.testing.assert_close(found, oracles.kron_curvature(case, kind, unbiased=True).detach())


def test_views_that_are_all_alike_have_no_bias() -> None:
    case = independent("cnn", samples=4)
    with torch.no_grad():
        for parameter in case.model.augmentation.parameters():
            parameter.zero_()
    plain = case.evidence("kron").estimate(case.data, case.draw)
    unbiased = case.evidence("kron", unbiased=True).estimate(case.data, case.draw)
    torch.testing.assert_close(dense(unbiased.curvature), dense(plain.curvature))
    assert unbiased.value == pytest.approx(plain.value, rel=1e-12)


def with_positive_factors(network: str, likelihood: str, **settings: Any) -> tuple[Case, lila.Evidence, lila.Estimate]:
    """A case of so many examples and such small ranges that noise leaves no eigenvalue below 0."""
    case = independent(network, likelihood, n=90)
    with torch.no_grad():
        for parameter in case.model.augmentation.parameters():
            parameter.mul_(0.3)
    evidence = case.evidence("kron", unbiased=True, **settings)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    for part in estimate.curvature.factors().values():
        values = torch.linalg.eigvalsh(part)
        assert values.min() > -1e-13 * values.max()  # some are 0, and stay so
    return case, evidence, estimate


@pytest.mark.parametrize(
    ("network", "likelihood", "settings"),
    [
        *((network, "categorical", {}) for network in ("mlp", "cnn", "shared", "residual", "rectified")),
        ("mlp", "gaussian", {}),
        ("residual", "bernoulli", {}),
        ("cnn", "categorical", {"probes": 1, "gradient_probes": 1}),
        ("mlp", "categorical", {"curvature": "ef"}),
    ],
)
def test_gradient_is_that_of_central_differences(network: str, likelihood: str, settings: dict[str, Any]) -> None:
    case, evidence, estimate = with_positive_factors(network, likelihood, **settings)
    found = evidence.gradient(case.data, estimate)
    for name, parameter in evidence.hyperparameters().items():
        expected = oracles.central_differences(
            lambda: evidence.estimate(case.data, case.draw, audit=False).value, parameter
        )
        torch.testing.assert_close(found[name], expected, rtol=1e-5, atol=1e-5)


def paired(case: Case, unbiased: bool, adding: bool) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
    """Of a batch: the inner product with a cotangent, its gradient in the hyperparameters, and the batch's sums."""
    evidence = case.evidence("kron", unbiased=unbiased)
    batch = next(Examples(case.data).batches(10))
    pass_ = evidence.gradient_pass(case.draw)
    cotangent = pass_.batch(batch, differentiable=False)[1].cotangent(evidence.prior.precisions())
    _, tape, columns = pass_.recorded(batch, differentiable=True)
    if adding:
        sum_ = CurvatureSum(evidence.no_curvature())
        value, total = sum_.add_and_pair(tape, columns, cotangent), sum_.structure()
    else:
        total = pass_.batch(batch, differentiable=False)[1]
        value = cotangent.inner_with_batch(tape, columns)
        torch.testing.assert_close(value, cotangent.inner(total))
    gradients = torch.autograd.grad(value, list(evidence.data_hyperparameters().values()))
    return value.detach(), gradients, total.tensors()


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_pairing_while_adding_is_the_inner_product_and_adds_the_batch(network: str, unbiased: bool) -> None:
    case = independent(network)
    torch.testing.assert_close(paired(case, unbiased, adding=True), paired(case, unbiased, adding=False))


@pytest.mark.parametrize("unbiased", [False, True])
def test_a_network_that_is_linear_between_kinks_and_has_few_outputs(unbiased: bool) -> None:
    """Its columns are not pulled back one by one, but its gradient is that through the factors."""
    case = independent()
    case.model.net = nn.Sequential(nn.Flatten(), nn.Linear(2 * SIDE**2, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    case = Case(case.model, case.likelihood, case.x, torch.tensor([0, 1, 1]), case.draw)
    evidence = case.evidence("kron", unbiased=unbiased)
    batch = next(Examples(case.data).batches(10))
    pass_ = evidence.gradient_pass(case.draw)
    cotangent = pass_.batch(batch, differentiable=False)[1].cotangent(evidence.prior.precisions())
    _, tape, columns = pass_.recorded(batch, differentiable=True)
    values = cotangent.inner_with_batch(tape, columns), cotangent.inner(pass_.batch(batch, differentiable=True)[1])
    torch.testing.assert_close(*values)
    parameters = list(evidence.data_hyperparameters().values())
    torch.testing.assert_close(*(torch.autograd.grad(value, parameters) for value in values))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_outer_products_have_a_weight_in_any_order_in_memory(order: tuple[int, ...]) -> None:
    lies = torch.randn(4, 5, 2, 3, dtype=torch.float64).permute(order).contiguous()
    x = lies.permute(torch.tensor(order).argsort().tolist())  # (b, t, r, i)
    P = torch.eye(3, dtype=torch.float64) + torch.ones(2, 3, 3, dtype=torch.float64)
    total = P.clone()
    Outer(x, -0.3).add_to_(total)
    moment = torch.einsum("btri,btrj->rij", x, x)
    torch.testing.assert_close(total, P - 0.3 * moment)
    torch.testing.assert_close(Outer(x, -0.3).inner(P), -0.3 * (P * moment).sum())


@pytest.mark.parametrize("network", ["cnn", "shared", "residual"])
def test_microbatches_add_up(network: str) -> None:
    case = independent(network, n=5)
    results = []
    for microbatch in (1, 2, 5):
        evidence = case.evidence("kron", unbiased=True, microbatch=microbatch)
        estimate = evidence.estimate(case.data, case.draw, audit=False)
        results.append((estimate.terms(), estimate.curvature.tensors(), evidence.gradient(case.data, estimate)))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


def test_negative_eigenvalues_count_as_zero_everywhere() -> None:
    case = independent("residual")
    made = curvature(case)
    assert isinstance(made, UnbiasedKron)
    assert min(float(torch.linalg.eigvalsh(block.A).min()) for block in made.blocks) < 0
    nearest = Kron(
        tuple(KronBlock(block.layer, positive(block.A), positive(block.G), block.positions) for block in made.blocks)
    )
    precisions = case.prior().precisions()
    torch.testing.assert_close(made.log_det(precisions), nearest.log_det(precisions))
    for found, expected in zip(
        made.cotangent(precisions).tensors(), nearest.cotangent(precisions).tensors(), strict=True
    ):
        torch.testing.assert_close(found, expected)
    means, covariances = zip(
        *(lila.Posterior(case.model, case.likelihood, case.prior(), of).outputs(case.x) for of in (made, nearest)),
        strict=True,
    )
    torch.testing.assert_close(*means)
    torch.testing.assert_close(*covariances)
    posterior = lila.Posterior(case.model, case.likelihood, case.prior(), made)
    assert all(drawn.isfinite().all() for drawn in posterior.sample(2).values())


def positive(factor: Tensor) -> Tensor:
    """The nearest matrices without negative eigenvalues."""
    values, vectors = torch.linalg.eigh(factor)
    return (vectors * values.clamp(min=0)[:, None, :]) @ vectors.mT


def test_a_layer_that_is_never_reached_has_no_curvature() -> None:
    case = independent("mlp")
    case.net.add_module("spare", nn.Identity())
    case.net.spare.extra = nn.Linear(2, 2).double()  # type: ignore[union-attr]
    assert dense(curvature(case))[-6:].abs().max() == 0


@pytest.mark.parametrize("network", NETWORKS)
def test_float32_stays_float32_and_agrees(network: str) -> None:
    case = independent(network)
    expected = dense(curvature(case))
    case.model.float()
    case.likelihood.float()
    found = dense(curvature(Case(case.model, case.likelihood, case.x.float(), case.y, case.draw)))
    assert found.dtype == torch.float32
    assert (found - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "shared"])
def test_running_averages_and_their_gradients(network: str) -> None:
    """If nothing fades, averages are plain. For a fixed cotangent, gradients of batches average to that of all."""
    case = independent(network, n=4)
    evidence = case.evidence("kron", unbiased=True)
    batches: list[Batch] = list(Examples(case.data).batches(2))
    made = RunningEvidence(evidence, 4, batches[0])
    for batch in batches:
        made.add(batch, case.draw, 2)
    made.decompose(move_prior=False)
    assert made.cotangent is not None
    found = [made.add(batch, case.draw, 2) for batch in batches]
    parameters = evidence.data_hyperparameters()
    whole = pull_back(evidence.gradient_pass(case.draw), batches, made.cotangent, list(parameters.values()))
    for name, expected in zip(parameters, whole, strict=True):
        torch.testing.assert_close((found[0][name] + found[1][name]) / 2, expected)
    made.decompose(move_prior=False)
    estimate = evidence.estimate(case.data, case.draw)
    assert isinstance(made.curvature, UnbiasedKron)
    torch.testing.assert_close(made.curvature.tensors(), estimate.curvature.tensors())
    assert made.estimate((estimate.log_likelihood, 0.0)).value == pytest.approx(estimate.value)


def test_the_running_log_likelihood_is_unbiased_too() -> None:
    case = independent(n=4)
    evidence, batch = case.evidence("kron", unbiased=True), next(Examples(case.data).batches(4))
    made = RunningEvidence(evidence, 4, batch)
    made.add(batch, case.draw, 4)
    made.decompose(move_prior=True)
    terms = made.terms()
    assert terms is not None
    assert terms.log_likelihood == pytest.approx(evidence.log_likelihood(case.data, case.draw).total, rel=1e-12)


@pytest.mark.parametrize("structure", ["diag", "full"])
def test_other_structures_are_refused(structure: str) -> None:
    with pytest.raises(lila.ArgumentError, match=f"structure='kron' only, not for '{structure}'"):
        independent().evidence(structure, unbiased=True)


def test_stratified_views_are_refused() -> None:
    with pytest.raises(lila.ArgumentError, match=r"overshoot. Use noise='independent'"):
        make_case().evidence("kron", unbiased=True)


def test_a_single_view_is_refused() -> None:
    with pytest.raises(lila.ArgumentError, match="at least 2 samples, but the model has 1"):
        independent(samples=1).evidence("kron", unbiased=True)


def test_averaged_log_likelihoods_are_refused() -> None:
    with pytest.raises(lila.ArgumentError, match="with average='log-likelihood' outputs are not averaged"):
        independent().evidence("kron", unbiased=True, average="log-likelihood")


def test_a_precision_per_weight_is_refused() -> None:
    case = independent()
    with pytest.raises(lila.ArgumentError, match="does not keep the Kronecker structure"):
        lila.Evidence(case.model, case.likelihood, case.prior("diagonal"), unbiased=True)


@pytest.mark.parametrize(
    ("unbiased", "named"), [(True, "a Kron, but this evidence uses UnbiasedKron"), (False, "a UnbiasedKron, but")]
)
def test_an_estimate_of_the_other_kind_is_refused(unbiased: bool, named: str) -> None:
    case = independent()
    estimate = case.evidence("kron", unbiased=not unbiased).estimate(case.data, case.draw)
    with pytest.raises(lila.ArgumentError, match=named):
        case.evidence("kron", unbiased=unbiased).gradient(case.data, estimate)
