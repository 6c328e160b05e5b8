"""Layers that stock networks are made of: attention, class tokens, frozen batch norm and the like, by the oracles."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import lila
import oracles
from cases import CHANNELS, OUTPUTS, SIDE, Case, Mean, Patches, case_of
from dense import curvature, dense
from lila.curvature.finding import find_layers

WIDTH = 4


class Tokens(nn.Module):
    """Class token, position embedding and layer scale, as in a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Linear(CHANNELS * SIDE, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, SIDE + 1, WIDTH))
        self.scale = nn.Parameter(torch.randn(WIDTH))
        self.head = nn.Linear(WIDTH, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.transpose(1, 2).flatten(2))
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], dim=1) + self.places
        tokens = tokens + self.scale * torch.tanh(self.mix(tokens.mean(1, keepdim=True) - tokens))
        return self.head(tokens[:, 0])


class Scattered(nn.Module):
    """Parameters that are sliced, reshaped, squashed and combined before they meet activations, in every spelling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, 3, 3)
        self.table = nn.Parameter(torch.randn(2, 3))
        self.temperature = nn.Parameter(torch.randn(()))
        self.shift = nn.Parameter(torch.randn(3, 1, 1))
        self.parts = nn.ParameterList([nn.Parameter(torch.randn(2)), nn.Parameter(torch.randn(1))])
        self.head = nn.Linear(27, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x)
        h += self.shift
        h = h.mul(self.table[0].reshape(1, -1, 1, 1)).sub_(self.table[1][:, None, None])
        h = torch.tanh(h / self.temperature.exp() + torch.cat([*self.parts]).view(1, 3, 1, 1))
        return self.head(self.shift.repeat(len(h), 1, 3, 3).mul(h).flatten(1))


class Gated(nn.Module):
    """Tokens that are joined after they were expanded, sliced positions, and a gate that is squashed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(CHANNELS * SIDE, WIDTH), nn.Linear(WIDTH, OUTPUTS)
        self.first, self.second = (nn.Parameter(torch.randn(1, 1, WIDTH)) for _ in range(2))
        self.places, self.gate = nn.Parameter(torch.randn(1, 9, WIDTH)), nn.Parameter(torch.randn(1))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x.transpose(1, 2).flatten(2)) + self.places.expand(1, 9, WIDTH)[:, 2 : SIDE + 2].to(x.dtype)
        own = torch.cat([self.first.expand(len(x), -1, -1), self.second.repeat(len(x), 1, 1)], dim=1)
        tokens = torch.cat((own + self.places[:, :2], tokens), 1)
        return self.head((torch.tanh(tokens) * torch.tanh(self.gate)).mean(1))


class ChannelsFirst(nn.LayerNorm):
    """A layer norm over the channels of images, as some libraries have it."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


class NormAndTanh(nn.BatchNorm2d):
    """A batch norm with its activation, as some libraries have it."""

    def forward(self, x: Tensor) -> Tensor:
        normalised = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.1, self.eps)
        return torch.tanh(normalised)


class GroupedAndTanh(nn.GroupNorm):
    """A group norm with its activation."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps))


class Volume(nn.Module):
    """An image as a volume of one channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)


def tokens() -> nn.Module:
    return Tokens()


def gated() -> nn.Module:
    return Gated()


def scattered() -> nn.Module:
    return Scattered()


def with_statistics(net: nn.Module) -> nn.Module:
    """Freeze statistics that differ from channel to channel."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.running_mean is not None:
            module.running_mean.copy_(torch.randn(module.num_features))
            assert module.running_var is not None
            module.running_var.copy_(torch.rand(module.num_features) + 0.5)
    return lila.freeze_statistics(net)


def batch_norms() -> nn.Module:
    images = [nn.Conv2d(CHANNELS, 3, 3, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten()]
    return with_statistics(
        nn.Sequential(*images, nn.Linear(27, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, OUTPUTS))
    )


def instance_norms() -> nn.Module:
    first, second = nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    images = [nn.Conv2d(CHANNELS, 3, 3), first, nn.Tanh(), nn.Flatten(2)]
    return with_statistics(nn.Sequential(*images, second, nn.Flatten(), nn.Linear(27, OUTPUTS)))


def rectified_linear() -> nn.Module:
    images = [nn.Conv2d(CHANNELS, 3, 3), nn.PReLU(3), nn.Flatten(), nn.Linear(27, 4)]
    return nn.Sequential(*images, nn.PReLU(), nn.Linear(4, OUTPUTS))


def volumes() -> nn.Module:
    conv = nn.Conv3d(1, 4, (2, 2, 3), stride=(1, 2, 1), padding=(0, 1, 0), dilation=(1, 2, 1))
    return nn.Sequential(
        Volume(), conv, nn.Tanh(), nn.Conv3d(4, 2, 1, groups=2, bias=False), nn.Flatten(), nn.Linear(18, OUTPUTS)
    )


def variants() -> nn.Module:
    norms = [ChannelsFirst(3), NormAndTanh(3), GroupedAndTanh(3, 3)]
    return with_statistics(nn.Sequential(nn.Conv2d(CHANNELS, 3, 3), *norms, nn.Flatten(), nn.Linear(27, OUTPUTS)))


def randomised(net: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.5 * parameter + 0.4 * torch.randn(parameter.shape))
    return net


def assert_as_the_oracle(case: Case, expected: Case, structure: str, prior: str = "layerwise") -> None:
    """Terms and gradients of the evidence are those of the dense oracle for a network with the same weights."""
    torch.testing.assert_close(
        dense(curvature(case, structure)), oracles.curvature_matrix(expected, structure).detach()
    )
    evidence, of_expected = (
        lila.Evidence(one.model, one.likelihood, one.prior(prior), structure=structure) for one in (case, expected)
    )
    estimate = evidence.estimate(case.data, case.draw)
    with sdpa_kernel(SDPBackend.MATH):
        terms = [term.item() for term in oracles.terms(expected, of_expected.prior, structure)]
        gradients = oracles.gradients(expected, of_expected, structure)
    assert list(estimate.terms().values()) == pytest.approx(terms)
    found = evidence.gradient(case.data, estimate)
    for one, other in zip(found.values(), gradients.values(), strict=True):
        torch.testing.assert_close(one, other)


NETWORKS = [tokens, gated, scattered, batch_norms, instance_norms, rectified_linear, volumes, variants]


@pytest.mark.parametrize("structure", ["kron", "full"])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("make", NETWORKS)
def test_the_evidence_and_its_gradient_are_those_of_the_oracle(
    make: Callable[[], nn.Module], samples: int, structure: str
) -> None:
    case = case_of(randomised(make()), n=2, samples=samples)
    assert_as_the_oracle(case, case, structure)


# Attention ------------------------------------------------------------------------------------------------------------


class Loose(nn.Module):
    """Parameters that belong to no layer."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])


class Explicit(nn.Module):
    """What `nn.MultiheadAttention` computes, made of linear layers and raw parameters; its arguments are named so."""

    def __init__(
        self,
        width: int,
        heads: int,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        sides = (width, kdim or width, vdim or width)
        self.separate = sides != (width, width, width)
        if self.separate:
            self.parts = nn.ModuleList([nn.Linear(side, width, bias=False) for side in sides])
            self.biases = Loose(*([(3 * width,)] if bias else []))
        else:
            self.stacked = nn.Linear(width, 3 * width, bias=bias)
        self.appended = Loose(*([(1, 1, width)] * 2 if add_bias_kv else []))
        self.merge, self.heads, self.add_zero_attn = nn.Linear(width, width, bias=bias), heads, add_zero_attn

    def projected(self, inputs: list[Tensor]) -> list[Tensor]:
        if not self.separate:
            made = {key: self.stacked(x) for key, x in {id(x): x for x in inputs}.items()}
            return [made[id(x)].chunk(3, -1)[number] for number, x in enumerate(inputs)]
        shifts = [part for bias in self.biases.values for part in bias.chunk(3)] or [torch.zeros(())] * 3
        return [part(x) + shift for part, x, shift in zip(self.parts, inputs, shifts, strict=True)]

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        q, *keys_and_values = self.projected([query, key, value])
        for i, appended in enumerate(self.appended.values):
            keys_and_values[i] = torch.cat([keys_and_values[i], appended.repeat(len(q), 1, 1)], 1)
        if self.add_zero_attn:
            keys_and_values = [torch.cat([part, torch.zeros_like(part[:, :1])], 1) for part in keys_and_values]
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, *keys_and_values))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            shown = torch.zeros(len(mask), k.shape[2] - mask.shape[1], dtype=torch.bool)
            scores = scores.masked_fill(torch.cat([mask, shown], 1), -torch.inf)
        return self.merge((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Attending(nn.Module):
    """Rows of an image that attend to each other, or to the columns."""

    def __init__(self, attention: nn.Module, sides: tuple[int, int], crossed: bool, masked: bool) -> None:
        super().__init__()
        self.rows, self.columns = nn.Linear(CHANNELS * SIDE, WIDTH), nn.Linear(CHANNELS * SIDE, max(sides))
        self.attention, self.head = attention, nn.Linear(WIDTH, OUTPUTS)
        self.sides, self.crossed, self.masked = sides, crossed, masked

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.rows(x.transpose(1, 2).flatten(2)), self.columns(x.permute(0, 3, 1, 2)[:, 1:].flatten(2))
        key = key if self.crossed else query
        value = key if self.sides == (WIDTH, WIDTH) else key[..., : self.sides[1]]
        key = key[..., : self.sides[0]] if key.shape[-1] != self.sides[0] else key
        mask = torch.ones(query.shape[1], key.shape[1]).triu(1).bool() if self.masked else None
        if isinstance(self.attention, Explicit):
            made = self.attention(query, key, value, mask)
        elif self.attention.batch_first:
            made = self.attention(query, key, value, attn_mask=mask, need_weights=False)[0]
        else:
            swapped = {id(part): part.transpose(0, 1) for part in (query, key, value)}
            inputs = (swapped[id(part)] for part in (query, key, value))
            made = self.attention(*inputs, attn_mask=mask)[0].transpose(0, 1)
        return self.head(torch.tanh(query + made).mean(1))


def attending(crossed: bool = False, masked: bool = False, **options: Any) -> tuple[nn.Module, nn.Module]:
    """A network with PyTorch's attention, and one with the same weights made of linear layers."""
    sides = (options.get("kdim", WIDTH), options.get("vdim", WIDTH))
    found = randomised(Attending(nn.MultiheadAttention(WIDTH, 2, **options), sides, crossed, masked))
    expected = Attending(Explicit(WIDTH, 2, **options), sides, crossed, masked)
    with torch.no_grad():
        for one, other in zip(expected.parameters(), found.parameters(), strict=True):
            one.copy_(other)
    return found, expected


ATTENTION: list[dict[str, Any]] = [
    {"batch_first": True},
    {"batch_first": False},
    {"batch_first": True, "crossed": True},
    {"batch_first": True, "masked": True},
    {"batch_first": True, "kdim": 3, "vdim": 2, "crossed": True},
    {"batch_first": False, "kdim": 3, "crossed": True, "masked": True, "bias": False},
    {"batch_first": True, "vdim": 2, "masked": True, "add_bias_kv": True, "add_zero_attn": True},
    {"batch_first": False, "masked": True, "add_bias_kv": True, "bias": False},
]


@pytest.mark.parametrize("structure", ["kron", "full"])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("options", ATTENTION, ids=str)
def test_attention_is_as_if_made_of_linear_layers(options: dict[str, Any], samples: int, structure: str) -> None:
    nets = attending(**options)
    found, expected = (case_of(net, n=2, samples=samples) for net in nets)
    x = found.data[0]
    torch.testing.assert_close(nets[0](x), nets[1](x))
    one_module = options.keys() & {"kdim", "vdim", "add_bias_kv"}  # for what several modules have in the other network
    assert_as_the_oracle(found, expected, structure, prior="scalar" if one_module else "layerwise")


def test_attention_with_some_weights_frozen() -> None:
    """What is frozen is a constant. The biases of three projections are one parameter, which needs no weight."""
    options: dict[str, Any] = {"batch_first": True, "kdim": 3, "vdim": 2, "crossed": True}
    nets = attending(**options)
    for net, frozen in zip(
        nets, (("k_proj_weight", "q_proj_weight"), ("parts.1.weight", "parts.0.weight")), strict=True
    ):
        for name in frozen:
            net.get_submodule("attention").get_parameter(name).requires_grad_(False)
    found, expected = (case_of(net, n=2, samples=2) for net in nets)
    assert_as_the_oracle(found, expected, "kron", prior="scalar")
    names = ["rows", "columns", "attention.v_proj_weight", "attention.in_proj_bias", "attention.out_proj", "head"]
    assert [layer.name for layer in find_layers(found.net)] == names


def encoder(**options: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 6, batch_first=True, **options)
    return nn.Sequential(Patches(), nn.Linear(CHANNELS * SIDE, WIDTH), layer, Mean(), nn.Linear(WIDTH, OUTPUTS))


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_transformer_layer_in_either_mode(mode: str, samples: int) -> None:
    """In evaluation mode it has a fast path, which has no gradients."""
    net = randomised(encoder(dropout=0.0 if mode == "train" else 0.1))
    case = case_of(net.train(mode == "train"), n=2, samples=samples)
    for structure in ("diag", "full"):
        assert_as_the_oracle(case, case, structure)
    assert not any("forward" in vars(module) for module in net.modules())


def test_dropout_inside_attention_is_found() -> None:
    case = case_of(
        Attending(nn.MultiheadAttention(WIDTH, 2, dropout=0.1, batch_first=True), (WIDTH, WIDTH), False, False)
    )
    with pytest.raises(lila.ModelError, match="draws random numbers"):
        case.evidence("kron").estimate(case.data, case.draw)


class Unbatched(Attending):
    """Attention that is given the rows of each image without a batch, image by image."""

    def forward(self, x: Tensor) -> Tensor:
        rows = self.rows(x.transpose(1, 2).flatten(2))
        made = torch.stack([self.attention(one, one, one)[0] for one in rows])
        return self.head(torch.tanh(made).mean(1))


def test_attention_that_is_called_without_a_batch_is_refused() -> None:
    case = case_of(Unbatched(nn.MultiheadAttention(WIDTH, 2), (WIDTH, WIDTH), False, False))
    with pytest.raises(lila.ModelError, match=r"'attention' is given nested tensors or sequences without a batch"):
        case.evidence("kron").estimate(case.data, case.draw)


def test_attention_that_something_replaced_is_refused() -> None:
    """Its hidden projections would explain another function than the one that predicts."""

    class Replaced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = attending(batch_first=True)[0]

        def forward(self, x: Tensor) -> Tensor:
            recorded = any("forward" in vars(module) for module in self.net.modules())
            return self.net(x) + 1 if recorded else self.net(x)

    case = case_of(Replaced())
    with pytest.raises(lila.ModelError, match="outputs of the network are others when the projections"):
        case.evidence("kron").estimate(case.data, case.draw)


# Raw parameters that are used in another way --------------------------------------------------------------------------


class Raw(nn.Module):
    """A parameter that is multiplied as a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.body, self.head = nn.Linear(CHANNELS * SIDE**2, WIDTH), nn.Linear(WIDTH, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(torch.tanh(self.body(x.flatten(1)))))

    def hidden(self, h: Tensor) -> Tensor:
        return h @ self.matrix


class BehindRelu(Raw):
    """Added, and also multiplied where no input at hand gets past a threshold."""

    def hidden(self, h: Tensor) -> Tensor:
        return h + self.matrix[0] + F.relu(h @ self.matrix - 50)


class InPlace(Raw):
    """Changed in place before it is added."""

    def hidden(self, h: Tensor) -> Tensor:
        return h + self.matrix[0].clone().mul_(2)


class TokensFirst(Raw):
    """Added to activations whose first dimension is not the batch."""

    def hidden(self, h: Tensor) -> Tensor:
        return (h.mT[:, :, None] + self.matrix[:, :1, None])[:, :, 0].mT


class ByPlace(Raw):
    """Each row of the batch gets another row of the parameter."""

    def hidden(self, h: Tensor) -> Tensor:
        return h + self.matrix.repeat(-(-len(h) // WIDTH), 1)[: len(h)]


class Swapped(Raw):
    """The parameter is added in another order of the batch: the sum of gradients is right, what belongs to whom not."""

    def hidden(self, h: Tensor) -> Tensor:
        return (h.flip(0) * self.matrix[0]).flip(0)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (Raw, r"no curvature rule for the parameters \['matrix'\] of the network itself \(Raw\).*MmBackward0"),
        (BehindRelu, r"no curvature rule for the parameters \['matrix'\] of the network itself"),
        (InPlace, r"no curvature rule for the parameters \['matrix'\]"),
        (TokensFirst, r"no curvature rule for the parameters \['matrix'\]"),
        (ByPlace, "depends on the other inputs of the batch|no curvature rule"),
        (Swapped, "does not keep the inputs of the batch in their order"),
    ],
)
@pytest.mark.parametrize("microbatch", [1, 64])
def test_other_uses_of_a_parameter_are_refused(make: type[Raw], cause: str, microbatch: int) -> None:
    case = case_of(make(), n=7)
    with pytest.raises(lila.ModelError, match=cause):
        case.evidence("kron", microbatch=microbatch).estimate(case.data, case.draw)


def test_positions_folded_into_the_batch_share_a_parameter() -> None:
    class Folded(Raw):
        def __init__(self, folded: bool) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.matrix = nn.Parameter(torch.randn(SIDE))
            self.body, self.head = nn.Linear(SIDE, SIDE), nn.Linear(SIDE * CHANNELS * SIDE, OUTPUTS)
            self.folded = folded

        def forward(self, x: Tensor) -> Tensor:
            rows = x.flatten(1, 2)
            rows = rows.flatten(0, 1) if self.folded else rows
            return self.head(torch.tanh(self.body(rows * self.matrix)).reshape(len(x), -1))

    folded, plain = (case_of(Folded(way), n=2) for way in (True, False))
    for structure in ("kron", "full"):
        torch.testing.assert_close(dense(curvature(folded, structure)), dense(curvature(plain, structure)))


def test_a_parameter_that_is_not_used_has_no_curvature() -> None:
    class Unused(Raw):
        def hidden(self, h: Tensor) -> Tensor:
            return h + self.matrix[0].detach()

    case = case_of(Unused(), n=2)
    case.evidence("kron").audit(case.data)
    matrix = dense(curvature(case, "kron"))
    assert matrix[: WIDTH**2].abs().max() == 0
    assert matrix.abs().max() > 0
