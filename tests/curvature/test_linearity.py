"""Networks that are linear between kinks are told from others, and their shorter way gives the same gradient."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lila
from cases import NETWORKS, make_case
from lila.curvature import Samples, record
from lila.curvature.autograd import recording
from lila.curvature.autograd.constant_jacobian import linear_between_kinks

WEIGHT = torch.randn(3, 3)


@pytest.mark.parametrize(
    ("function", "linear"),
    [
        (lambda x: x @ WEIGHT, True),
        (lambda x: F.relu(x @ WEIGHT) + 2 * x - 1, True),
        (lambda x: F.linear(F.leaky_relu(x), WEIGHT, WEIGHT[0]) / WEIGHT, True),
        (lambda x: torch.cat([x, -x], 1).clamp(-1, 1), True),
        (lambda x: x.abs(), False),  # not on the list: the longer way is always right
        (lambda x: x * x, False),
        (lambda x: x @ x, False),
        (lambda x: WEIGHT / x, False),
        (lambda x: x / x.sum(), False),
        (lambda x: F.relu(x) * F.relu(x @ WEIGHT), False),
        (lambda x: x.add_(torch.tanh(x.clone())) @ WEIGHT, False),
        (lambda x: x.copy_(torch.tanh(x.clone())) @ WEIGHT, False),
        (torch.tanh, False),
        (torch.sin, False),
        (lambda x: F.gelu(x), False),
        (lambda x: F.layer_norm(x, (3,)), False),
        (lambda x: F.batch_norm(x, WEIGHT[0], WEIGHT[1] ** 2, WEIGHT[2]), True),
        (lambda x: F.batch_norm(x, None, None, training=True), False),
        (lambda x: x.softmax(1), False),
    ],
)
def test_functions_are_told_apart(function: Callable[[Tensor], Tensor], linear: bool) -> None:
    x = torch.randn(3, 3, requires_grad=True).clone()
    start = x.grad_fn
    assert linear_between_kinks(function(x), start) is linear


def test_what_comes_before_the_input_does_not_matter() -> None:
    x = torch.tanh(torch.randn(3, 3, requires_grad=True))
    assert linear_between_kinks(x @ WEIGHT, x.grad_fn)


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_are_told_apart(network: str) -> None:
    case = make_case(network)
    made = record(case.model, (), case.x, case.noise(), Samples.AVERAGED, differentiable=True)
    assert made.constant_jacobian is (network in ("linear", "rectified"))


@pytest.mark.parametrize("model", ["cnn", "resnet-8-8", "wrn-16-4"])
def test_the_networks_of_the_paper_are_linear_between_kinks(model: str) -> None:
    net = lila.make_model(model, (3, 8, 8), 4)
    invariant = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=2)
    noise = invariant.draw(lila.Draw(), torch.arange(2), torch.float32)
    made = record(invariant, (), torch.rand(2, 3, 8, 8), noise, Samples.AVERAGED, differentiable=True)
    assert made.constant_jacobian


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("likelihood", ["categorical", "gaussian", "bernoulli"])
@pytest.mark.parametrize("probes", [None, 1])
def test_the_shorter_way_gives_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, structure: str, likelihood: str, probes: int | None
) -> None:
    case = make_case("rectified", likelihood)
    evidence = case.evidence(structure, gradient_probes=probes)
    estimate = evidence.estimate(case.data, case.draw)
    shorter = evidence.gradient(case.data, estimate)
    monkeypatch.setattr(recording, "linear_between_kinks", lambda outputs, start: False)
    for name, expected in evidence.gradient(case.data, estimate).items():
        torch.testing.assert_close(shorter[name], expected)


@pytest.mark.parametrize("layers", ["all", "last"])
def test_a_network_with_a_layer_that_does_not_reach_the_output_has_a_gradient(layers: str) -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            outputs: Tensor = self.used(x.flatten(1))
            self.idle(x.flatten(1))
            return outputs

    net = Idle()
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=2)
    evidence = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), gradient_probes=1, layers=layers)
    data = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 2])
    assert evidence.gradient(data, evidence.estimate(data))["augmentation.eta"].isfinite().all()
