"""A layer type of one's own and its curvature rule, both defined outside the package."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles
from cases import CHANNELS, OUTPUTS, SIDE, Case, case_of
from lila.curvature.rules import registry

DOCS = Path(__file__).parents[2] / "docs"


class InputsFirst(nn.Module):
    """y = x K + s, whose kernel K is stored with the inputs first, shape (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.shift = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.kernel + self.shift


class InputsFirstRule(lila.Rule):
    """One group; every dimension between the batch and the inputs is a position."""

    weight, bias = "kernel", "shift"

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, InputsFirst)
        inputs, outputs = module.kernel.shape
        return 1, outputs, inputs  # (r, o, d)

    def to_block(self, module: nn.Module, weight: Tensor) -> Tensor:
        return weight.mT.unsqueeze(0)  # (d, o) to (1, o, d)

    def from_block(self, module: nn.Module, block: Tensor) -> Tensor:
        return block.squeeze(0).mT

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.reshape(len(x), -1, x.shape[-1])  # (v, t, d)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.unsqueeze(2)  # (v, t, 1, d)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g.reshape(len(g), -1, 1, g.shape[-1])  # (v, t, 1, o)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))  # forgotten after the test
    lila.register_rule(InputsFirst, InputsFirstRule())


def network(own: bool) -> nn.Module:
    """A network of layers that are InputsFirst, or of the same layers as `nn.Linear`."""
    torch.manual_seed(1)
    layers = [InputsFirst(SIDE, 3), InputsFirst(3 * CHANNELS * SIDE, OUTPUTS)]
    first, last = layers if own else [as_linear(layer) for layer in layers]
    return nn.Sequential(first, nn.Tanh(), nn.Flatten(), last)


def as_linear(layer: InputsFirst) -> nn.Module:
    linear = nn.Linear(*layer.kernel.shape)
    with torch.no_grad():
        linear.weight.copy_(layer.kernel.mT)
        linear.bias.copy_(layer.shift)
    return linear


def case(own: bool = True, samples: int = 3) -> Case:
    return case_of(network(own), samples=samples)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_terms_and_gradients_are_those_of_the_dense_oracle(structure: str, samples: int) -> None:
    made = case(samples=samples)
    evidence = made.evidence(structure)
    estimate = evidence.estimate(made.data, made.draw)
    expected = torch.stack(oracles.terms(made, evidence.prior, structure)).sum()
    assert estimate.value == pytest.approx(float(expected.detach()), rel=1e-9)
    found = evidence.gradient(made.data, estimate)
    for name, gradient in oracles.gradients(made, evidence, structure).items():
        torch.testing.assert_close(found[name], gradient)


@pytest.mark.parametrize("samples", [1, 3])
def test_kronecker_factors_are_those_of_linear_layers(samples: int) -> None:
    own, linear = (case(choice, samples) for choice in (True, False))
    evidences = [made.evidence("kron") for made in (own, linear)]
    estimates = [evidence.estimate(own.data, own.draw) for evidence in evidences]
    torch.testing.assert_close(estimates[0].curvature.tensors(), estimates[1].curvature.tensors())
    assert estimates[0].value == pytest.approx(estimates[1].value, rel=1e-12)
    found, expected = (
        evidence.gradient(own.data, estimate) for evidence, estimate in zip(evidences, estimates, strict=True)
    )
    torch.testing.assert_close(found, expected)


def test_weights_of_the_posterior_have_the_shape_of_the_parameters() -> None:
    made = case()
    evidence = made.evidence("kron")
    curvature = evidence.estimate(made.data, made.draw).curvature
    drawn = lila.Posterior(made.model, made.likelihood, evidence.prior, curvature).sample(4)
    assert {name: weight.shape[1:] for name, weight in drawn.items()} == {
        name: weight.shape for name, weight in made.net.named_parameters()
    }


def test_a_rule_that_forgets_the_order_of_the_weight_is_refused() -> None:
    class Forgetful(InputsFirstRule):
        to_block, from_block = lila.Rule.to_block, lila.Rule.from_block

    lila.register_rule(InputsFirst, Forgetful())
    made = case()
    with pytest.raises(lila.ModelError, match=r"0\.kernel"):
        made.evidence("kron").estimate(made.data, made.draw)


@pytest.mark.parametrize("shown", [InputsFirst, InputsFirstRule])
def test_the_documentation_shows_this_very_class(shown: type) -> None:
    assert any(inspect.getsource(shown) in page.read_text() for page in DOCS.glob("*.md"))


class DoubledRule(InputsFirstRule):
    def to_block(self, module: nn.Module, weight: Tensor) -> Tensor:
        return 2 * super().to_block(module, weight)


class TransposedRule(InputsFirstRule):
    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        groups, outputs, inputs = super().shape(module)
        return groups, inputs, outputs


class FlatRule(InputsFirstRule):
    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g


class FailingRule(InputsFirstRule):
    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.reshape(7, 11)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (DoubledRule(), "`from_block` does not undo `to_block`"),
        (TransposedRule(), r"`to_block` returns shape \(1, 3, 5\), but `shape` is \(1, 5, 3\)"),
        (FlatRule(), "`outputs` returns shape"),
        (FailingRule(), "`inputs` fails for a tensor of shape"),
    ],
)
def test_a_rule_of_the_wrong_shape_is_an_error_that_names_rule_and_layer(rule: lila.Rule, message: str) -> None:
    lila.register_rule(InputsFirst, rule)
    made = case()
    with pytest.raises(lila.ModelError, match=rf"rule {type(rule).__name__} of '0' \(InputsFirst\).*{message}"):
        made.evidence("diag").estimate(made.data, made.draw)


@pytest.mark.parametrize(
    ("layer", "rule", "message"),
    [
        (InputsFirst, InputsFirstRule, "must be an instance of lila.Rule.* forget the parentheses"),
        (nn.Linear, None, "The rule of Linear must be an instance of lila.Rule, but is None"),
        ("Linear", InputsFirstRule(), "must be a subclass of torch.nn.Module, but is 'Linear'"),
    ],
)
def test_what_is_no_rule_is_refused(layer: Any, rule: Any, message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.register_rule(layer, rule)
