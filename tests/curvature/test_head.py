"""The linear layer that a network ends in, whose output gradients are known without a backward pass."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import oracles
from cases import CHANNELS, OUTPUTS, SIDE, Backwards, Case, Twice, case_of, mlp
from dense import curvature, dense
from lila.curvature import Samples, Tape, find_layers, record

INPUTS = CHANNELS * SIDE**2


class Doubled(nn.Linear):
    """A layer that is more than its class."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def then(*modules: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *modules)


def with_frozen_head() -> nn.Module:
    head = nn.Linear(1, OUTPUTS)
    head.weight.requires_grad_(False)
    return then(nn.Linear(INPUTS, 1), nn.Tanh(), head)


WITH_HEAD: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "nothing else": lambda: then(nn.Linear(INPUTS, OUTPUTS)),
    "named first, no bias": Backwards,
    "handed on": lambda: then(nn.Linear(INPUTS, OUTPUTS), nn.Identity()),
}
WITHOUT: dict[str, Callable[[], nn.Module]] = {
    "rectified": lambda: then(nn.Linear(INPUTS, OUTPUTS), nn.ReLU()),
    "used twice": lambda: then(nn.Linear(INPUTS, OUTPUTS), Twice(nn.Linear(OUTPUTS, OUTPUTS))),
    "more than linear": lambda: then(Doubled(INPUTS, OUTPUTS)),
    "frozen weight": with_frozen_head,
    "reshaped": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(SIDE**2, 2), nn.Flatten()),
}


def taped(net: nn.Module, samples: Samples = Samples.AVERAGED) -> tuple[Tape, Case]:
    case = case_of(net, samples=3)
    return record(case.model, find_layers(net), case.x, case.noise(), samples, differentiable=False), case


@pytest.mark.parametrize("name", WITH_HEAD)
def test_a_head_is_found_and_gives_the_same_outputs_and_curvature(name: str) -> None:
    tape, case = taped(WITH_HEAD[name]())
    assert tape.head == ([layer.shape[1] for layer in tape.layers].index(OUTPUTS))
    torch.testing.assert_close(tape.outputs, case.model(case.x, case.noise()))
    column = torch.randn_like(tape.outputs)
    torch.testing.assert_close(tape.pull(column)[tape.head], column[:, None, None, :])
    torch.testing.assert_close(dense(curvature(case, "kron")), oracles.curvature_matrix(case, "kron", "ggn").detach())


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_not_the_end_or_not_linear_or_used_twice_is_no_head(name: str) -> None:
    tape, case = taped(WITHOUT[name]())
    assert tape.head is None
    torch.testing.assert_close(tape.outputs, case.model(case.x, case.noise()))


def test_samples_that_are_positions_have_no_head() -> None:
    assert taped(mlp(), Samples.POSITIONS)[0].head is None
