"""What networks are taken, what a user's own rule needs, and what is refused, with the words a person reads."""

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lila
from cases import CHANNELS, OUTPUTS, SIDE, Case, case_of
from dense import curvature, dense
from lila.curvature import Rule, Sharing, find_layers, register_rule
from lila.curvature.rules.registry import _RULES
from lila.model.fixup import Bias, Scale
from oracles import full_curvature, gradients


def refusal(net: nn.Module) -> str:
    """The message with which the evidence of a network is refused."""
    case = case_of(net)
    before = dict(net.named_parameters())
    with pytest.raises(lila.ModelError) as caught:
        case.evidence("kron").estimate(case.data, case.draw)
    assert_untouched(net, before)
    return str(caught.value)


def assert_untouched(net: nn.Module, before: dict[str, nn.Parameter]) -> None:
    """The network still has the same parameters, and no hooks."""
    after = dict(net.named_parameters())
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    assert not any(module._forward_hooks for module in net.modules())


HEAD = CHANNELS * SIDE**2


NORMS = [
    (nn.BatchNorm2d(CHANNELS), "lila.freeze_statistics(net)"),
    (nn.SyncBatchNorm(CHANNELS), "lila.freeze_statistics(net)"),
    (nn.BatchNorm2d(CHANNELS, track_running_stats=False).eval(), "keeps no statistics"),
]


@pytest.mark.parametrize(("norm", "remedy"), NORMS)
def test_batch_norm_is_refused_with_the_reason_and_a_way_out(norm: nn.Module, remedy: str) -> None:
    message = refusal(nn.Sequential(norm, nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))
    assert "'0' is a" in message
    assert "no likelihood of a single example" in message
    assert "lila.convert_batch_norm(net)" in message
    assert remedy in message


def test_dropout_is_refused_while_it_is_on() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(HEAD, OUTPUTS))
    assert "random masks differ from pass to pass" in refusal(net)
    case = case_of(net.eval())
    case.evidence("kron").estimate(case.data, case.draw)


def test_a_layer_without_a_rule_is_named() -> None:
    message = refusal(nn.Sequential(nn.ConvTranspose3d(1, 1, 1), nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))
    assert "['weight', 'bias'] of '0' (ConvTranspose3d)" in message
    assert "Linear, Conv1d, Conv2d" in message
    assert "register_rule" in message


class Direct(nn.Module):
    """A weight of the network itself, in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(OUTPUTS))
        self.linear = nn.Linear(HEAD, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.flatten(1)) @ torch.diag(self.gain)
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


@pytest.mark.parametrize(
    ("make", "weights", "cause"),
    [
        (Functional, "['linear.weight']", "are used outside of the forward of their layer 'linear'"),
        (Bypassed, "['linear.weight', 'linear.bias']", "are used outside of the forward of their layer 'linear'"),
        (TokensFirst, "Layer 'inner' got an input of shape (4, 8, 10)", "batch first"),
        (Mixing, "inside the network (Mixing)", "depends on the other inputs of the batch"),
    ],
)
def test_weights_that_do_more_than_their_layer_says_are_named(make: type[Direct], weights: str, cause: str) -> None:
    net = make()
    net.gain.requires_grad_(False)
    message = refusal(net)
    assert weights in message
    assert cause in message


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
    assert "Layer 'linear' got an input" in message
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


class Rows(nn.Module):
    """A layer that is shared by the rows of an image, which are either positions or folded into the batch."""

    def __init__(self, layer: nn.Module, folded: bool) -> None:
        super().__init__()
        self.layer, self.head, self.folded = layer, nn.Linear(CHANNELS * SIDE**2, OUTPUTS), folded

    def forward(self, x: Tensor) -> Tensor:
        rows = x.transpose(1, 2).flatten(2)  # (batch, rows, channels columns)
        rows = self.layer(rows.flatten(0, 1)) if self.folded else self.layer(rows)
        out: Tensor = self.head(torch.tanh(rows).reshape(len(x), -1))
        return out


class AsConv(nn.Module):
    """A linear map of rows (batch rows, width), done by a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.conv(rows.unsqueeze(2)).squeeze(2)
        return out


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("kind", ["linear", "conv", "layer norm", "group norm", "scale", "bias"])
def test_positions_folded_into_the_batch_are_taken_apart_again(kind: str, structure: str) -> None:
    width = CHANNELS * SIDE
    torch.manual_seed(2)
    plain: nn.Module
    folded: nn.Module
    if kind in ("linear", "conv"):
        plain = folded = nn.Linear(width, width)
        if kind == "conv":
            folded = AsConv(width)
            folded.conv.weight.data = plain.weight.data[:, :, None]
            folded.conv.bias.data = plain.bias.data  # type: ignore[union-attr]
    elif kind == "group norm":
        plain, folded = nn.LayerNorm(width), nn.GroupNorm(1, width)  # of one row they are the same
    else:
        plain = folded = {"layer norm": nn.LayerNorm(width), "scale": Scale(0.7), "bias": Bias(0.2)}[kind]
    expected, found = Rows(plain, folded=False), Rows(folded, folded=True)
    found.head = expected.head
    torch.testing.assert_close(
        dense(curvature(case_of(found), structure)), dense(curvature(case_of(expected), structure))
    )


class TwoNames(nn.Module):
    """One layer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(HEAD, HEAD)
        self.second = self.first
        self.head = nn.Linear(HEAD, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.second(torch.tanh(self.first(x.flatten(1))))))
        return out


def test_a_module_with_two_names_is_one_layer_and_stays_as_it_is() -> None:
    net = TwoNames()
    case = case_of(net, n=2)
    before = dict(net.named_parameters())
    evidence = case.evidence("kron")
    evidence.gradient(case.data, evidence.estimate(case.data, case.draw))
    assert_untouched(net, before)
    assert net.first.weight.requires_grad
    assert len(find_layers(net)) == 2


@pytest.mark.parametrize("first", [True, False])
def test_activations_in_place_are_no_obstacle(first: bool) -> None:
    """Neither as the first operation nor behind a layer whose output is a view."""

    def make(inplace: bool) -> nn.Module:
        torch.manual_seed(4)
        act = nn.ELU(inplace=inplace)
        rows = [nn.Flatten(2), nn.Linear(SIDE**2, 4), act, nn.Flatten(), nn.Linear(4 * CHANNELS, OUTPUTS)]
        return nn.Sequential(*([nn.ELU(inplace=inplace)] * first + rows))

    found, expected = (case_of(make(inplace)) for inplace in (True, False))
    torch.testing.assert_close(dense(curvature(found, "kron")), dense(curvature(expected, "kron")))


def test_a_layer_whose_output_is_not_used_has_no_curvature() -> None:
    class Unused(Direct):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Linear(HEAD, 2)

        def forward(self, x: Tensor) -> Tensor:
            self.idle(x.flatten(1))
            out: Tensor = self.linear(x.flatten(1))
            return out

    net = Unused()
    net.gain.requires_grad_(False)
    matrix = dense(curvature(case_of(net), "kron"))
    assert matrix[-102:].abs().max() == 0
    assert matrix.abs().max() > 0


def test_random_numbers_inside_the_network_are_noticed() -> None:
    class Dropping(Direct):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.linear(x.flatten(1))
            return F.dropout(out, 0.5)

    net = Dropping()
    net.gain.requires_grad_(False)
    message = refusal(net)
    assert "draws random numbers (by bernoulli in the network (Dropping))" in message
    assert "two runs on the same inputs give different outputs" in message


def test_running_statistics_are_refused() -> None:
    norm = nn.InstanceNorm2d(CHANNELS, track_running_stats=True)
    message = refusal(nn.Sequential(norm, nn.Flatten(), nn.Linear(HEAD, OUTPUTS)))
    assert "track_running_stats=False" in message


def test_mixing_is_noticed_with_any_microbatch() -> None:
    net = Mixing()
    net.gain.requires_grad_(False)
    case = case_of(net)
    model = lila.InvariantModel(net, lila.Affine2d().double(), samples=1)
    evidence = lila.Evidence(model, case.likelihood, lila.GaussianPrior(net), microbatch=1)
    with pytest.raises(lila.ModelError, match="mixes the examples"):
        evidence.estimate(case.data)


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
        return torch.einsum("bchw,c->bchw", x, self.gain)


class GainRule(Rule):
    weight, bias, sharing = "gain", None, Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, Gain)
        return len(module.gain), 1, 1

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.flatten(2).mT.unsqueeze(3)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
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
@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
def test_a_user_can_give_a_rule(structure: str) -> None:
    net = nn.Sequential(Gain(CHANNELS), nn.Flatten(), nn.Linear(HEAD, OUTPUTS))
    assert "'0' (Gain)" in refusal(net)
    register_rule(Gain, GainRule())
    case = case_of(net)
    expected = full_curvature(case).detach()
    found = dense(curvature(case, structure))
    if structure == "full":
        torch.testing.assert_close(found, expected)
    elif structure == "diag":
        torch.testing.assert_close(found, torch.diag(expected.diagonal()))
    else:  # averages over the samples separately, so only at S = 1 are its gains exact
        case = Case(lila.InvariantModel(net, case.model.augmentation, 1), case.likelihood, case.x, case.y, case.draw)
        found, expected = dense(curvature(case, structure)), full_curvature(case).detach()
        torch.testing.assert_close(found.diagonal()[:CHANNELS], expected.diagonal()[:CHANNELS])


@pytest.mark.usefixtures("_forget_rules")
def test_a_wrong_rule_is_found_out() -> None:
    register_rule(Gain, WrongGainRule())
    assert "The gradient of '0.gain' is not explained" in refusal(
        nn.Sequential(Gain(CHANNELS), nn.Flatten(), nn.Linear(HEAD, OUTPUTS))
    )


class NormedGain(Gain):
    """One gain per channel, of inputs that are normalised first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(normed(x))


class NormedGainRule(GainRule):
    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return normed(x)


class CrookedInputs(GainRule):
    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return super().inputs(module, normed(x))


class CrookedOutputs(NormedGainRule):
    """Right for each view by itself, but not for their sum: which of two equal vectors has the sign of g."""

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return super().inputs(module, x).repeat(1, 2, 1, 1)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        rows = super().outputs(module, g)
        return torch.cat([rows.clamp(min=0), rows.clamp(max=0)], dim=1)


class Wave(nn.Module):
    """Its slope has another sign from input to input."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(20 * x)


def normed(x: Tensor) -> Tensor:
    return x / x.flatten(1).norm(dim=1)[:, None, None, None]


@pytest.mark.usefixtures("_forget_rules")
@pytest.mark.parametrize("rule", [CrookedInputs(), CrookedOutputs()])
def test_a_rule_that_is_not_linear_is_found_out(rule: Rule) -> None:
    net = nn.Sequential(NormedGain(CHANNELS), nn.Flatten(), Wave(), nn.Linear(HEAD, OUTPUTS))
    register_rule(NormedGain, NormedGainRule())
    case = case_of(net)
    assert case.evidence("kron").estimate(case.data, case.draw).value < 0
    register_rule(NormedGain, rule)
    assert re.search(r"rules of the layers \['0'\] are not linear.*belongs into `features`", refusal(net))


TRANSPOSED = [
    {},
    {"stride": 2},
    {"stride": 3, "output_padding": 2},
    {"padding": 1},
    {"padding": 2},  # more than the kernel of two pixels reaches, so that the image is cropped
    {"dilation": (2, 1), "padding": 1},
    {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "dilation": (1, 2), "groups": 2},
    {"bias": False},
]


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
def test_the_rule_of_a_transposed_convolution_computes_its_output(options: dict[str, Any]) -> None:
    """y[t, r, o] = sum_d W[r, o, d] a[t, r, d], and a block goes back to the weight and bias that it came from."""
    module = nn.ConvTranspose2d(4, 6, (3, 2), **options).double()
    (layer,) = find_layers(module)
    x = torch.randn(2, 4, 5, 4, dtype=torch.float64)
    block = layer.join(dict(module.named_parameters()))
    found = torch.einsum("rod,vtrd->vtro", block, layer.inputs(x))
    torch.testing.assert_close(found, layer.rule.outputs(module, module(x)))
    torch.testing.assert_close(layer.split(block), dict(module.named_parameters()))


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
@pytest.mark.parametrize("samples", [1, 3])
def test_full_curvature_with_a_transposed_convolution(options: dict[str, Any], samples: int) -> None:
    """Its value and its gradient in eta are those of automatic differentiation."""
    torch.manual_seed(0)
    up = nn.ConvTranspose2d(CHANNELS, 2, 3, **options)
    net = nn.Sequential(nn.AvgPool2d(2, 1), nn.Tanh(), up, nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    case = case_of(nn.Sequential(net, nn.Linear(8, OUTPUTS)), n=2, samples=samples)
    evidence = case.evidence("full")
    torch.testing.assert_close(dense(curvature(case, "full")), full_curvature(case).detach())
    found = evidence.gradient(case.data, evidence.estimate(case.data, case.draw))
    for name, expected in gradients(case, evidence, "full").items():
        torch.testing.assert_close(found[name], expected)


def test_half_precision_is_refused() -> None:
    net = nn.Linear(2, 1).half()
    model = lila.InvariantModel(net, lila.Rotation2d(), samples=1)
    with pytest.raises(lila.ArgumentError, match=r"torch\.float16.*net\.float\(\)"):
        lila.Evidence(model, lila.Gaussian(), lila.GaussianPrior(net))
