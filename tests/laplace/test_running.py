"""Running averages of the curvature, and gradients of the evidence from minibatches."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import lila
from cases import LIKELIHOODS, NETWORKS, Case, make_case
from lila.curvature import Kron
from lila.data.examples import Batch, Examples
from lila.laplace.passes import pull_back
from lila.laplace.running import RunningEvidence

STRUCTURES = ["kron", "diag", "full"]
KINDS = ["ggn", "ef"]


def batches(case: Case, size: int = 2) -> Iterator[Batch]:
    return Examples(case.data).batches(size)


def running(case: Case, structure: str = "kron", kind: str = "ggn", **more: Any) -> RunningEvidence:
    return RunningEvidence(case.evidence(structure, kind, **more), len(case.data[0]), next(batches(case)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "shared"])
def test_an_average_in_which_nothing_fades_is_the_plain_average(network: str, structure: str, kind: str) -> None:
    """Also once there is a cotangent, when the same recording gives the gradient."""
    case = make_case(network, n=5)
    made = running(case, structure, kind, microbatch=2)
    plain = made.evidence.estimate(case.data, case.draw, audit=False).curvature
    for epoch in (1, 2):
        for batch in batches(case):
            made.add(batch, case.draw, len(batch.index))
        assert made.weight == 5 * epoch
        made.decompose(move_prior=False)
        assert made.curvature is not None
        for found, expected in zip(made.curvature.tensors(), plain.tensors(), strict=True):
            torch.testing.assert_close(found, expected)


def test_batches_that_are_all_alike_have_their_own_average_however_they_fade() -> None:
    case = make_case("cnn", n=3)
    made, batch = running(case), next(batches(case, 3))
    plain = made.evidence.estimate(case.data, case.draw, audit=False).curvature
    for fade in (0.9, 0.3, 0.0, 0.7):
        made.add(batch, case.draw, 3, fade=fade)
    made.decompose(move_prior=False)
    assert made.curvature is not None
    for found, expected in zip(made.curvature.tensors(), plain.tensors(), strict=True):
        torch.testing.assert_close(found, expected)


def test_what_fades_weighs_less() -> None:
    case = make_case("mlp", n=4)
    made = running(case)
    first, second = batches(case)
    made.add(first, case.draw, 2)
    made.add(second, case.draw, 2, fade=0.25)
    assert made.weight == 2.5
    alone = [running(case) for _ in range(2)]
    for one, batch in zip(alone, (first, second), strict=True):
        one.add(batch, case.draw, 2)
    parts = (structure.total.tensors() for structure in (made, *alone))
    for found, early, late in zip(*parts, strict=True):
        torch.testing.assert_close(found, 0.25 * early + late)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_of_batches_average_to_the_gradient_of_all(network: str, structure: str, kind: str) -> None:
    """For a fixed cotangent and the same noise, over batches of equal size."""
    case = make_case(network, n=4)
    made = running(case, structure, kind)
    made.add(next(batches(case, 4)), lila.Draw(99), 4)
    made.decompose(move_prior=False)
    evidence, cotangent = made.evidence, made.cotangent
    assert cotangent is not None
    parameters = evidence.data_hyperparameters()
    pass_ = evidence.gradient_pass(case.draw)
    whole = pull_back(pass_, batches(case), cotangent, list(parameters.values()))
    found = [made.add(batch, case.draw, 2) for batch in batches(case)]
    for (name, expected), total in zip(found[0].items(), whole, strict=True):
        torch.testing.assert_close((expected + found[1][name]) / 2, total)


def test_a_hyper_step_in_microbatches_is_the_same() -> None:
    case = make_case("residual", "gaussian", n=5)
    gradients = []
    for microbatch in (1, 2, 5):
        made = running(case, microbatch=microbatch)
        batch = next(batches(case, 5))
        made.add(batch, case.draw, 5)
        made.decompose(move_prior=True)
        gradients.append(made.add(batch, lila.Draw(3), 5))
    for name in gradients[0]:
        torch.testing.assert_close(gradients[1][name], gradients[0][name])
        torch.testing.assert_close(gradients[2][name], gradients[0][name])


@pytest.mark.parametrize(("structure", "prior"), [("kron", "scalar"), ("kron", "layerwise"), ("diag", "diagonal")])
@pytest.mark.parametrize("network", ["mlp", "residual", "partly_frozen"])
def test_the_fixed_point_is_where_the_gradient_in_the_precisions_vanishes(
    network: str, structure: str, prior: str
) -> None:
    case = make_case(network)
    evidence = lila.Evidence(case.model, case.likelihood, case.prior(prior), structure=structure)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    weights = evidence.weights_of(estimate.curvature)

    def log_det() -> Tensor:
        return estimate.curvature.log_det(evidence.prior.precisions())

    def slope() -> float:
        found = evidence.gradient(case.data, estimate)
        free = [(name, g) for name, g in found.items() if name.startswith("prior.")]
        inside = [g[p.detach().abs() < 9.2] for (_, g), p in zip(free, evidence.prior.parameters(), strict=True)]
        found_slopes = torch.cat([g.flatten() for g in inside]).abs()  # of those that met no bound
        return float(found_slopes.max()) if len(found_slopes) else 0.0

    before = slope()
    evidence.prior.move_to_fixed_point_(weights, log_det)
    after = slope()
    assert after < 0.1 * before
    evidence.prior.move_to_fixed_point_(weights, log_det, times=200)
    assert slope() < 1e-3  # less than a thousandth of a weight counts as a thousandth


def test_precisions_that_are_frozen_or_have_no_curvature_stay() -> None:
    case = make_case("mlp")
    prior = case.prior("layerwise")
    prior.log_precisions[0].requires_grad_(False)
    evidence = lila.Evidence(case.model, case.likelihood, prior, layers="last")
    before = [p.item() for p in prior.parameters()]
    made = RunningEvidence(evidence, 3, next(batches(case)))
    made.add(next(batches(case, 3)), case.draw, 3)
    made.decompose(move_prior=True)
    after = [p.item() for p in prior.parameters()]
    assert after[0] == before[0]
    assert after[1] != before[1]


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_what_is_unexplained_is_a_share_of_the_best_constant_prediction(likelihood: str) -> None:
    case = make_case("mlp", likelihood, n=6)
    made = running(case)
    assert made.unexplained is None
    made.add(next(batches(case, 6)), case.draw, 6)
    f = case.model(case.x, case.model.draw(case.draw, torch.arange(6), torch.float64)).detach()
    constant = torch.zeros(1, f.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([constant], max_iter=500, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = case.likelihood.misfit(constant.expand_as(f), case.y).mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    with torch.no_grad():
        misfits = [case.likelihood.misfit(g.expand_as(f), case.y).mean() for g in (f, constant)]
    assert made.unexplained == pytest.approx(float(misfits[0] / misfits[1]), rel=1e-4)


def test_an_estimate_from_running_averages_is_that_of_a_pass_where_nothing_moves() -> None:
    case = make_case("cnn", n=4)
    made = running(case)
    made.add(next(batches(case, 4)), case.draw, 4)
    made.decompose(move_prior=False)
    expected, found = made.evidence.estimate(case.data, case.draw), made.estimate()
    assert found.terms() == pytest.approx(expected.terms())
    terms = made.terms()
    assert terms is not None
    assert terms.terms() == pytest.approx(expected.terms())
    with pytest.raises(lila.ArgumentError, match="comes from running averages"):
        made.evidence.gradient(case.data, found)


@pytest.mark.slow
def test_the_standard_error_is_that_of_other_examples() -> None:
    """The spread of the estimate over many data sets of the same kind, from half of which it is scaled up."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    model = lila.InvariantModel(net, lila.Rotation2d(init=0.5).double(), 3)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net))
    values, errors = [], []
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(200, 2, generator=generator, dtype=torch.float64)
        y = (x[:, 0] > 0).long()
        made = RunningEvidence(evidence, 10_000, Batch(torch.arange(2), x[:2], y[:2]))
        for start in [0, *range(0, 200, 10)]:  # the first batch only to have a cotangent
            index = torch.arange(start, start + 10)
            made.add(Batch(index, x[index], y[index]), lila.Draw(seed), 10)
            made.decompose(move_prior=False)
        found = made.estimate((0.0, 0.0))
        values.append(found.value)
        errors.append(found.standard_error)
    spread = torch.tensor(values).std()
    assert 0.7 * spread < torch.tensor(errors).mean() < 1.4 * spread


def test_a_value_that_is_not_finite_is_named() -> None:
    case = make_case("mlp", n=2)
    made = running(case)
    batch = next(batches(case))
    made.add(batch, case.draw, 2)
    total = made.total.structure()
    assert isinstance(total, Kron)
    total.blocks[1].G.fill_(float("inf"))
    with pytest.raises(lila.NumericalError, match="output factor G of layer '3' is not finite"):
        made.decompose(move_prior=False)
    with torch.no_grad():
        next(case.net.parameters()).fill_(float("nan"))
    with pytest.raises(lila.NumericalError, match="log-likelihood of a batch"):
        made.add(batch, case.draw, 2)
