"""The evidence of models whose outcomes, as flipped or not, are enumerated: weighted averages over views."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import lila
import oracles
from cases import Case, make_case
from oracles import central_differences


class Repeated(lila.Augmentation):
    """The views of another augmentation, each as often as its weight says, so that all count alike."""

    noise_dim = 0

    def __init__(self, views: Tensor) -> None:
        super().__init__()
        self.views = views

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.views[: len(x), : noise.shape[1]]


def flipped_case(network: str, p: float, samples: int = 2) -> Case:
    case = make_case(network, samples=samples)
    flips = lila.Compose(lila.Affine2d(["rotation", "shear"], init=0.2), lila.HorizontalFlip()).double()
    torch.nn.init.constant_(flips.get_parameter("parts.1.eta"), p / (1 - p))
    return replace(case, model=lila.InvariantModel(case.net, flips, samples))


@pytest.mark.parametrize("curvature", ["ggn", "ef"])
@pytest.mark.parametrize("structure", ["full", "diag", "kron"])
@pytest.mark.parametrize("network", ["mlp", "cnn", "rectified"])
def test_a_view_of_weight_three_quarters_counts_as_three_of_four(network: str, structure: str, curvature: str) -> None:
    case = flipped_case(network, p=0.25)
    views = case.views().detach()  # of each example, as it is turned, and turned otherwise and flipped
    repeated = views[:, [0, 0, 0, 1]]
    alike = replace(case, model=lila.InvariantModel(case.net, Repeated(repeated), samples=4))
    evidence = case.evidence(structure, curvature)
    found = evidence.estimate(case.data, case.draw, audit=False)
    expected = oracles.terms(alike, case.prior(), structure, curvature)
    torch.testing.assert_close(found.value, float(torch.stack(expected).sum().detach()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("curvature", ["ggn", "ef"])
@pytest.mark.parametrize("structure", ["full", "diag", "kron"])
@pytest.mark.parametrize("network", ["mlp", "cnn", "rectified"])
def test_the_gradient_is_that_of_central_differences(network: str, structure: str, curvature: str) -> None:
    case = flipped_case(network, p=0.2, samples=3)
    evidence = case.evidence(structure, curvature)
    gradient = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    for name, parameter in evidence.hyperparameters().items():
        if name.startswith("augmentation"):
            expected = central_differences(
                lambda: evidence.estimate(case.data, case.draw, audit=False).value, parameter, 1e-5
            )
            torch.testing.assert_close(gradient[name], expected, rtol=1e-5, atol=1e-6)
            assert gradient[name].abs().max() > 1e-3


@pytest.mark.parametrize("p", [0.0, 0.2])
def test_the_gradient_is_that_through_the_dense_oracle(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    case = flipped_case("mlp", p)
    eta = case.model.augmentation.get_parameter("parts.1.eta")

    def weighted_output(net: Any, views: Tensor, weights: dict[str, Tensor]) -> Tensor:
        flip = eta[0] / (1 + eta[0])
        return (1 - flip) * oracles.output(net, views[0], weights) + flip * oracles.output(net, views[1], weights)

    monkeypatch.setattr(oracles, "average_output", weighted_output)
    evidence = case.evidence("full")
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw, audit=False))
    for name, expected in oracles.gradients(case, evidence, "full").items():
        torch.testing.assert_close(found[name], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average": "log-likelihood"}, "views of no probability are no examples"),
        ({"unbiased": True}, "needs views that count alike"),
    ],
)
def test_what_takes_views_for_equals_is_refused(settings: dict[str, Any], message: str) -> None:
    case = flipped_case("mlp", p=0.25)
    independent = lila.InvariantModel(case.net, case.model.augmentation, 4, noise="independent")
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Evidence(independent, case.likelihood, case.prior(), **settings)


def test_a_probability_is_learned_and_a_run_is_saved_with_it(tmp_path: Any) -> None:
    """Halves of an image that tell the class whichever side they are on: mirrored or not is all the same."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 2
    x = 0.3 * torch.rand(120, 1, 4, 4, generator=generator)
    x[torch.arange(120), 0, y * 3, torch.randint(2, (120,), generator=generator) * 3] += 1.0
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    flips = lila.Compose(lila.HorizontalFlip(), lila.VerticalFlip())
    run = lila.fit(net, (x, y), flips, epochs=30, samples=4, eta_lr=0.1, folder=tmp_path / "run", progress="silent")
    assert run.ranges["horizontal flip"] > 0.3
    assert run.ranges["vertical flip"] < 0.05  # it would change the class
    loaded = lila.load(tmp_path / "run")
    assert loaded.ranges == run.ranges
    torch.testing.assert_close(loaded.model.eval()(x), run.model.eval()(x))
