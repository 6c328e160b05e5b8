"""What networks are taken, what a user's own rule needs, and what is refused, with the words a person reads."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lila
from cases import CHANNELS, OUTPUTS, SIDE, Case, make_case
from dense import curvature, dense
from lila.curvature import Rule, Sharing, find_layers, register_rule
from lila.curvature.rules import _RULES
from oracles import full_curvature


def case_of(net: nn.Module, n: int = 3) -> Case:
    case = make_case("mlp", samples=2, n=n)
    case.model.net = net.double()
    return case


def refusal(net: nn.Module) -> str:
    """The message with which the evidence of a network is refused."""
    case = case_of(net)
    with pytest.raises(lila.ModelError) as caught:
        case.evidence("kron").estimate(case.data, case.draw)
    return str(caught.value)


HEAD = CHANNELS * SIDE**2


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(CHANNELS), nn.SyncBatchNorm(CHANNELS), nn.BatchNorm2d(2).eval()])
def test_batch_norm_is_refused_with_the_reason_and_a_way_out(norm: nn.Module) -> None:
    message = refusal(nn.Sequential(norm, nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))
    assert "'0' is a" in message
    assert "no likelihood of a single example" in message
    assert "nn.GroupNorm" in message


def test_dropout_is_refused_while_it_is_on() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(HEAD, OUTPUTS))
    assert "random masks differ from pass to pass" in refusal(net)
    case = case_of(net.eval())
    case.evidence("kron").estimate(case.data, case.draw)


def test_a_layer_without_a_rule_is_named() -> None:
    message = refusal(nn.Sequential(nn.Conv3d(1, 1, 1), nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))
    assert "['weight', 'bias'] of '0' (Conv3d)" in message
    assert "Linear, Conv1d, Conv2d" in message
    assert "register_rule" in message


def test_multi_head_attention_is_refused_by_name() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(HEAD, OUTPUTS))
    net.add_module("attention", nn.MultiheadAttention(4, 1))
    assert "'attention' (MultiheadAttention)" in refusal(net)


class Direct(nn.Module):
    """A weight of the network itself, in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(OUTPUTS))
        self.linear = nn.Linear(HEAD, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.flatten(1)) * self.gain
        return out


def test_a_weight_outside_any_layer_is_named() -> None:
    assert "['gain'] of the network itself (Direct)" in refusal(Direct())


class Functional(Direct):
    """A layer's weight that is also used behind its back."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x.flatten(1))
        return h + F.linear(x.flatten(1), self.linear.weight)


class Bypassed(Direct):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), self.linear.weight, self.linear.bias)


class Overridden(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight**2, self.bias)


class TokensFirst(Direct):
    """Tokens before the batch: what belongs to which example cannot be told from the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(CHANNELS * SIDE, HEAD // 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[:, :, :4].permute(2, 0, 1, 3).flatten(2)  # (rows, batch, channels columns)
        h = torch.tanh(self.inner(tokens)).transpose(0, 1).reshape(len(x), 2, -1).mean(1)
        out: Tensor = self.linear(h)
        return out


class Mixing(Direct):
    """Examples that see each other without any batch norm."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x.flatten(1))
        return h - h.mean(0, keepdim=True)


@pytest.mark.parametrize("make", [Functional, Bypassed, TokensFirst, Mixing])
def test_weights_that_do_more_than_their_layer_says_are_named(make: type[Direct]) -> None:
    net = make()
    net.gain.requires_grad_(False)
    message = refusal(net)
    assert "linear.weight" in message or "inner.weight" in message
    assert "not explained by the inputs and outputs" in message


def test_a_subclass_that_does_something_else_is_found_out() -> None:
    assert "'1.weight'" in refusal(nn.Sequential(nn.Flatten(), Overridden(HEAD, OUTPUTS)))


def test_a_batch_in_another_dimension_that_does_not_divide_is_refused() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.head = nn.Linear(HEAD, 4), nn.Linear(4, OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            h = self.linear(torch.cat([x.flatten(1), x.flatten(1)[:1]]))[: len(x)]
            out: Tensor = self.head(h)
            return out

    message = refusal(Strange())
    assert "In layer 'linear'" in message
    assert "batch first" in message


def test_a_layer_under_no_grad_is_refused() -> None:
    class Quiet(Direct):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                h = self.linear(x.flatten(1))
            return h.requires_grad_()

    net = Quiet()
    net.gain.requires_grad_(False)
    assert "runs it under torch.no_grad()" in refusal(net)


def test_a_parameter_shared_by_two_modules_is_refused() -> None:
    one, two = nn.Linear(3, 3), nn.Linear(3, 3)
    two.weight = one.weight
    message = refusal(nn.Sequential(nn.Flatten(), nn.Linear(HEAD, 3), one, two, nn.Linear(3, OUTPUTS)))
    assert "'2.weight' is used again as '3.weight'" in message


def test_everything_frozen_is_refused() -> None:
    net = nn.Linear(2, 1)
    net.requires_grad_(False)
    with pytest.raises(lila.ModelError, match="no trainable parameters"):
        find_layers(net)


def test_tokens_folded_into_the_batch_are_taken_apart_again() -> None:
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(CHANNELS * SIDE, 3), nn.Linear(3 * SIDE, OUTPUTS)

        def forward(self, x: Tensor) -> Tensor:
            rows = x.transpose(1, 2).reshape(-1, CHANNELS * SIDE)  # (batch rows, channels columns)
            out: Tensor = self.head(torch.tanh(self.inner(rows)).reshape(len(x), -1))
            return out

    case = case_of(Folded())
    torch.testing.assert_close(dense(curvature(case, "full")), full_curvature(case).detach())


def test_a_layer_called_by_keyword_is_seen() -> None:
    class Keyword(Direct):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.linear(input=x.flatten(1))
            return out

    net = Keyword()
    net.gain.requires_grad_(False)
    case = case_of(net)
    torch.testing.assert_close(dense(curvature(case, "full")), full_curvature(case).detach())


class Gain(nn.Module):
    """A user's layer: one gain per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain[:, None, None]


class GainRule(Rule):
    weight, bias, sharing = "gain", None, Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, Gain)
        return len(module.gain), 1, 1

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.flatten(2).mT.unsqueeze(3)

    def outputs(self, module: nn.Module, g: Tensor, views: int) -> Tensor:
        return g.flatten(2).mT.unsqueeze(3)


class WrongGainRule(GainRule):
    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return 2 * super().inputs(module, x)


@pytest.fixture
def _forget_rules() -> object:
    before = dict(_RULES)
    yield
    _RULES.clear()
    _RULES.update(before)


@pytest.mark.usefixtures("_forget_rules")
@pytest.mark.parametrize("structure", ["diag", "full"])
def test_a_user_can_give_a_rule(structure: str) -> None:
    net = nn.Sequential(Gain(CHANNELS), nn.Flatten(), nn.Linear(HEAD, OUTPUTS))
    assert "'0' (Gain)" in refusal(net)
    register_rule(Gain, GainRule())
    case = case_of(net)
    expected = full_curvature(case).detach()
    if structure == "diag":
        expected = torch.diag(expected.diagonal())
    torch.testing.assert_close(dense(curvature(case, structure)), expected)


@pytest.mark.usefixtures("_forget_rules")
def test_a_wrong_rule_is_found_out() -> None:
    register_rule(Gain, WrongGainRule())
    assert "['0.gain']" in refusal(nn.Sequential(Gain(CHANNELS), nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))


def test_half_precision_is_refused() -> None:
    net = nn.Linear(2, 1).half()
    model = lila.InvariantModel(net, lila.Rotation2d(), samples=1)
    with pytest.raises(lila.ArgumentError, match=r"torch\.float16.*net\.float\(\)"):
        lila.Evidence(model, lila.Gaussian(), lila.GaussianPrior(net))
