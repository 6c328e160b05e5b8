from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import lila
from cases import make_case
from dense import curvature, dense
from lila.curvature import CurvatureKind, Roots, Structure, find_layers, find_structure, record
from lila.curvature.roots import _groups
from oracles import central_differences

DRAWS = 300


def assert_unbiased(draws: list[Tensor], expected: Tensor) -> None:
    """Each entry's mean over the draws is within five standard errors of what is expected, and it does vary."""
    stacked = torch.stack(draws)
    error = stacked.std(0) / len(draws) ** 0.5
    assert ((stacked.mean(0) - expected).abs() <= 5 * error + 1e-12).all()
    assert error.max() > 0


def as_vector(structure: Structure) -> Tensor:
    return torch.cat([part.flatten() for part in structure.factors().values()])


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize(("likelihood", "probes"), [("categorical", 1), ("gaussian", 1), ("gaussian", 2)])
def test_probes_estimate_the_curvature_without_bias(structure: str, likelihood: str, probes: int) -> None:
    case = make_case("cnn", likelihood, samples=2)
    kind, roots = find_structure(structure), Roots(CurvatureKind.GGN, probes)
    tape = record(case.model, find_layers(case.net), case.x, case.noise(), kind.samples, differentiable=False)
    f, index = tape.outputs.detach(), torch.arange(len(case.x))
    draws = []
    for epoch in range(DRAWS):
        columns = roots.columns(case.likelihood, f, case.y, lila.Draw(9, epoch), index)
        draws.append(as_vector(kind.of_batch(tape, columns)))
    assert_unbiased(draws, as_vector(curvature(case, structure)))


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_as_many_probes_as_columns_are_exact(structure: str) -> None:
    case = make_case("mlp")
    exact = dense(curvature(case, structure))
    for probes in (3, 10):
        assert torch.equal(dense(curvature(case, structure, probes=probes)), exact)


class OtherProbes(lila.Draw):
    """A draw whose probes come from another seed than its augmentation noise."""

    def signs(self, index: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return lila.Draw(self.probe_seed, 77).signs(index, shape, dtype)

    @classmethod
    def of(cls, draw: lila.Draw, probe_seed: int) -> "OtherProbes":
        made = cls(draw.seed, draw.epoch)
        object.__setattr__(made, "probe_seed", probe_seed)
        return made

    probe_seed: int


@pytest.mark.parametrize("likelihood", ["categorical", "gaussian"])
def test_the_average_gradient_over_probes_is_the_exact_gradient(likelihood: str) -> None:
    case = make_case("mlp", likelihood, samples=2)
    exact = case.evidence("kron")
    estimate = exact.estimate(case.data, case.draw, audit=False)
    expected = exact.gradient(case.data, estimate)
    probing = lila.Evidence(case.model, case.likelihood, exact.prior, gradient_probes=1)
    draws = [
        probing.gradient(case.data, replace(estimate, draw=OtherProbes.of(case.draw, seed))) for seed in range(DRAWS)
    ]
    for name in ("augmentation.eta", "likelihood.log_sigma")[: 1 + (likelihood == "gaussian")]:
        assert_unbiased([draw[name].flatten() for draw in draws], expected[name].flatten())


def test_probes_in_both_passes_give_the_gradient_of_the_estimate_itself() -> None:
    case = make_case("mlp", "gaussian")
    evidence = lila.Evidence(case.model, case.likelihood, case.prior(), probes=1, gradient_probes=1)
    gradient = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    for name, parameter in evidence.hyperparameters().items():
        expected = central_differences(lambda: evidence.estimate(case.data, case.draw, audit=False).value, parameter)
        torch.testing.assert_close(gradient[name], expected, rtol=1e-5, atol=1e-6)


def many_classes(n: int = 10) -> tuple[lila.InvariantModel, tuple[Tensor, Tensor]]:
    """Seven classes whose probabilities differ much, so that probes group columns of unequal size."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 7)).double()
    nn.init.normal_(net[3].bias, std=2)  # type: ignore[arg-type]
    x = torch.rand(n, 1, 3, 3, dtype=torch.float64)
    return lila.InvariantModel(net, lila.Affine2d(init=0.1).double(), samples=2), (x, torch.arange(n) % 7)


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_probes_that_share_out_columns_of_unequal_size_are_unbiased(probes: int) -> None:
    model, data = many_classes()
    f, index = model(data[0], model.draw(lila.Draw(), torch.arange(10), torch.float64)).detach(), torch.arange(10)
    draws = []
    for epoch in range(DRAWS):
        columns = Roots(CurvatureKind.GGN, probes).columns(lila.Categorical(), f, data[1], lila.Draw(9, epoch), index)
        draws.append((columns.u.mT @ columns.u).flatten())
    assert_unbiased(draws, lila.Categorical().hessian(f).flatten())


@pytest.mark.slow
def test_the_log_determinants_bias_falls_with_the_number_of_probes() -> None:
    model, data = many_classes()
    prior = lila.GaussianPrior(model.net)

    def log_dets(probes: int | None) -> Tensor:
        evidence = lila.Evidence(model, lila.Categorical(), prior, probes=probes)
        draws = [
            evidence.estimate(data, OtherProbes.of(lila.Draw(), seed), audit=False).occam_factor for seed in range(60)
        ]
        return torch.tensor(draws, dtype=torch.float64)

    exact = log_dets(None)[0]
    biases = [float((log_dets(probes) - exact).mean().abs()) for probes in (1, 2, 4)]
    assert biases[0] > biases[1] > biases[2]
    torch.testing.assert_close(log_dets(6)[0], exact)  # all columns: the likeliest class has none


def test_less_than_one_probe_is_refused() -> None:
    with pytest.raises(lila.ArgumentError, match="at least 1, but is"):
        Roots(CurvatureKind.GGN, 0)


def test_columns_are_shared_out_by_size_and_none_is_left_without_its_group() -> None:
    sizes = torch.tensor([[0.1, 0.8, 0.1], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert _groups(sizes, 1).tolist() == [[0, 0, 0]] * 3
    assert _groups(sizes, 2)[0].tolist() == [1, 0, 1]  # the largest alone
    assert sorted(_groups(sizes, 2)[1].tolist()) == [0, 0, 1]
    many = _groups(torch.rand(5, 40), 4)
    assert all(len(set(row)) == 4 for row in many.tolist())


def test_the_bias_of_the_log_determinant_is_upwards_and_large_for_a_full_curvature() -> None:
    """With two directions in the outputs of each example, one probe misses half of the directions in the weights."""
    case, biases = make_case("mlp", n=30, samples=1), {}
    for structure in ("kron", "full"):
        exact = case.evidence(structure).estimate(case.data, case.draw, audit=False).occam_factor
        evidence = case.evidence(structure, probes=1)
        draws = [OtherProbes.of(case.draw, seed) for seed in range(20)]
        biases[structure] = sum(evidence.estimate(case.data, d, audit=False).occam_factor - exact for d in draws) / 20
    assert biases["full"] > 3
    assert biases["full"] > 1.5 * biases["kron"]
