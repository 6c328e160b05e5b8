"""A curvature structure that is defined outside the package, registered with a line, and used like the others."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import Case, make_case
from lila.curvature import Columns, Contribution, Layer, Samples, Tape, Value, as_blocks, jacobian, registry

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Isotropic(lila.Structure):
    """H = h I in each layer, where h is the mean of the diagonal of the curvature over the P weights of the layer.

    Attributes:
        layers: the layers.
        h: per layer, h = 1/P sum_n sum_k |J_hat' u_k|^2, a scalar.
    """

    samples: ClassVar[Samples] = Samples.POSITIONS  # average the Jacobian itself over the samples
    layers: tuple[Layer, ...]
    h: tuple[Tensor, ...]

    @classmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        return cls(tuple(layers), tuple(like.new_zeros(()) for _ in layers))

    @classmethod
    def contributions(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        inputs = tape.inputs()  # a per layer, (b, t, r, d)
        for column in columns.u.unbind(1):
            for position, (g, a) in enumerate(zip(tape.pull(column), inputs, strict=True)):
                J = jacobian(g, a)  # (b, r, o, d)
                yield Contribution(position, Value(J.square().sum() / tape.layers[position].size))

    def factors(self) -> Mapping[str, Tensor]:
        return {f"mean curvature of layer {layer.name!r}": h for layer, h in zip(self.layers, self.h, strict=True)}

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        return type(self)(self.layers, tuple(tensors))

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        return torch.stack([block.double().log().sum() for block in self._with_prior(precisions)]).sum()

    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        with torch.no_grad():
            return self.with_tensors([block.reciprocal().sum() for block in self._with_prior(precisions)])

    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        blocks = self._with_prior(precisions)
        return torch.cat([(J * block.rsqrt()).flatten(1) for J, block in zip(rows, blocks, strict=True)], dim=1)

    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        blocks = self._with_prior(precisions)
        return tuple(part * block.rsqrt() for part, block in zip(as_blocks(z, self.layers), blocks, strict=True))

    def _with_prior(self, precisions: Mapping[str, Tensor]) -> list[Tensor]:
        """Return h + delta of every weight, per layer (r, o, d)."""
        return [h + layer.join(precisions) for layer, h in zip(self.layers, self.h, strict=True)]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_STRUCTURES", dict(registry._STRUCTURES))  # forgotten after the test
    lila.register_structure("isotropic", Isotropic)


def dense(case: Case) -> Tensor:
    """The curvature as a dense matrix (P, P): within a layer, the mean of the full curvature's diagonal."""
    diagonal = oracles.full_curvature(case).diagonal()
    owners = [name.rpartition(".")[0] for name, p in case.net.named_parameters() for _ in range(p.numel())]
    means = {
        name: torch.stack([h for h, owner in zip(diagonal, owners, strict=True) if owner == name]).mean()
        for name in set(owners)
    }
    return torch.diag(torch.stack([means[owner] for owner in owners]))


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "diagonal"])
@pytest.mark.parametrize("network", ["mlp", "cnn", "residual", "decoder"])
def test_log_determinant_and_gradients_are_those_of_the_dense_matrix(network: str, prior: str) -> None:
    case = make_case(network)
    made = case.prior(prior)
    evidence = lila.Evidence(case.model, case.likelihood, made, structure="isotropic", microbatch=2)
    estimate = evidence.estimate(case.data, case.draw, audit=False)
    H = dense(case) + torch.diag(oracles.precision_vector(case, made))
    log_det = torch.linalg.slogdet(H).logabsdet
    torch.testing.assert_close(estimate.curvature.log_det(made.precisions()), log_det)

    parameters = evidence.hyperparameters()
    weights = oracles.trainable(case.net)
    f = torch.stack([oracles.average_output(case.net, views, weights) for views in case.views()])
    value = case.likelihood.log_prob(f, case.y).sum() + made.log_prob(weights) - 0.5 * log_det
    expected = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    found = evidence.gradient(case.data, estimate)
    for name, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(found[name], gradient)


def test_posterior_is_that_of_the_dense_matrix() -> None:
    case = make_case("mlp")
    evidence = case.evidence("isotropic")
    posterior = lila.Posterior(
        case.model, case.likelihood, evidence.prior, evidence.estimate(case.data, case.draw, audit=False).curvature
    )
    Sigma = torch.linalg.inv(dense(case) + torch.diag(oracles.precision_vector(case, evidence.prior))).detach()
    views = case.model.augmentation(case.x, case.model.fixed_noise(case.x)).detach()
    J = torch.stack([oracles.jacobian(case.net, v).detach() for v in views])
    torch.testing.assert_close(posterior.outputs(case.x)[1].detach(), J @ Sigma @ J.mT)


@pytest.mark.parametrize("passes", ["running", "exact"])
def test_a_run_learns_with_it(passes: str) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 2))
    data = torch.rand(12, 1, 4, 4), torch.arange(12) % 2
    run = lila.fit(
        net,
        data,
        lila.Affine2d(init=0.1),
        structure="isotropic",
        passes=passes,
        epochs=3,
        batch_size=4,
        samples=2,
        burn_in=1,
        microbatch=4,
        progress="silent",
    )
    assert isinstance(run.evidence, lila.Estimate)
    assert isinstance(run.evidence.curvature, Isotropic)
    assert all(abs(reached - 0.1) > 1e-6 for reached in run.ranges.values())


def test_a_name_that_is_not_registered_or_taken_is_refused() -> None:
    with pytest.raises(lila.ArgumentError, match="choose one of 'kron', 'diag', 'full', 'isotropic'"):
        lila.Settings(structure="block")
    with pytest.raises(lila.ArgumentError, match=r"structure named 'kron' already \(Kron\)"):
        lila.register_structure("kron", Isotropic)
    with pytest.raises(lila.ArgumentError, match="structure='kron' only, not for 'isotropic'"):
        make_case().evidence("isotropic", unbiased=True)


def test_the_documentation_shows_this_very_class() -> None:
    assert any(inspect.getsource(Isotropic) in page.read_text() for page in DOCS.glob("*.md"))


@pytest.mark.parametrize(
    ("name", "structure", "message"),
    [
        ("other", "Kron", "'other' must be a subclass of lila.Structure, but is 'Kron'"),
        ("other", type("Half", (lila.Structure,), {}), "'other' cannot be Half, which does not define"),
        ("", Isotropic, "name of a curvature structure consists of letters"),
        (3, Isotropic, "name of a curvature structure consists of letters"),
    ],
)
def test_what_is_no_structure_is_refused(name: Any, structure: Any, message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.register_structure(name, structure)
