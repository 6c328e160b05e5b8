"""Layers that share a gradient, as one adds a constant to what another gives and nothing else sees that."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import oracles
from cases import CHANNELS, OUTPUTS, SIDE, case_of
from dense import curvature, dense
from lila.curvature import Samples, find_layers, record
from lila.curvature.autograd.graph import key
from lila.model.fixup import Bias, Scale

INPUTS = CHANNELS * SIDE**2


class Branching(nn.Module):
    """A linear layer and a bias, put together by a function of the two."""

    def __init__(self, together: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.first, self.bias, self.last = nn.Linear(INPUTS, 4), Bias(0.3), nn.Linear(4, OUTPUTS)
        self.together = together

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.together(self.first(x.flatten(1)), self.bias)))


def discarding(x: Tensor, bias: nn.Module) -> Tensor:
    """A bias whose result nobody uses."""
    bias(x)
    return 2 * x


def in_place(x: Tensor, bias: nn.Module) -> Tensor:
    """What a bias was added to is changed afterwards, and used."""
    shifted = bias(x)
    return shifted * x.mul_(2)


class Outer(Bias):
    """Adds a constant of its own, which makes the result larger than what it was given."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :1]) + torch.zeros(1, 4, dtype=x.dtype)


def sequence(*modules: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, 4), *modules, nn.ReLU(), nn.Linear(4, OUTPUTS))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "a bias": (lambda: sequence(Bias(0.1)), 2),
    "two": (lambda: sequence(Bias(0.1), Bias(0.2)), 2),
    "a scale between two": (lambda: sequence(Bias(0.1), Scale(1.5), Bias(0.2)), 3),
    "a convolution's": (
        lambda: nn.Sequential(nn.Conv2d(CHANNELS, 2, SIDE), Bias(0.1), nn.ReLU(), nn.Flatten(), nn.Linear(2, OUTPUTS)),
        2,
    ),
    "at the end": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, OUTPUTS), Bias(0.1)), 1),
    "what it is added to is used twice": (lambda: Branching(lambda x, bias: bias(x) + 0.5 * x), 3),
    "added twice": (lambda: Branching(lambda x, bias: bias(x) * bias(x)), 4),
    "not used": (lambda: Branching(discarding), 3),
    "changed in place": (lambda: Branching(in_place), 3),
    "broadcast": (lambda: sequence(Outer(0.1)), 3),
}
"""Networks, and how many gradients their layers have."""


@pytest.mark.parametrize("structure", ["kron", "diag"])
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_share_a_gradient_only_where_they_have_the_same(name: str, structure: str) -> None:
    make, distinct = NETWORKS[name]
    case = case_of(make(), samples=3)
    tape = record(case.model, find_layers(case.model.net), case.x, case.noise(), Samples.AVERAGED, differentiable=False)
    assert len({key(edge) for of_layer in tape.edges for edge in of_layer}) == distinct
    expected = oracles.curvature_matrix(case, structure, "ggn").detach()
    torch.testing.assert_close(dense(curvature(case, structure)), expected)
