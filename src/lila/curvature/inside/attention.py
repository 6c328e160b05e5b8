"""The projections of `nn.MultiheadAttention`, which are no layers: their weights go to one function for everything.

Within `exposed` the module computes the same by separate operations: queries, keys and values by `InProjection`s, the
result by a call of `out_proj`, so that hooks see both. It also has the second derivative that fused attention lacks.
Sequences are arranged with the batch first before they are projected, whatever `batch_first` says.

Where queries, keys and values have inputs of one width, their three projections are one linear map of stacked outputs
(query, key, value). If the inputs differ, the map is applied to each of these, and the outputs that are not used have a
gradient of zero. With a `kdim` or `vdim` of its own, the module keeps three weights, and each is a linear map. They
share a single parameter for their biases, so this one is followed as a parameter that belongs to no layer
(`raw_parameters`), and so are the key and the value that `add_bias_kv` appends.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.curvature.inside.stand_in import StandIn
from lila.curvature.rules import LinearRule

STACKED = "in_proj_weight"
"""What the attention module calls the weight of all three projections."""
SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
"""What it calls the weights of the projections of queries, keys and values if these have inputs of different widths."""
BIASES = "in_proj_bias"
"""What it calls the biases of all three projections."""


class InProjection(StandIn):
    """A linear map from inputs of an attention module to its queries, keys or values, or to all of these.

    Args:
        owner: the attention module.
        own: the name of the weight in that module. The map has a bias if it is the weight of all three projections.
    """

    def __init__(self, owner: nn.Module, own: str) -> None:
        super().__init__(owner)
        self.own = own

    @property
    def weight(self) -> Tensor:
        """The weight, shape (3 width, width) or (width, inputs)."""
        weight: Tensor = getattr(self.owner, self.own)
        return weight

    @property
    def bias(self) -> Tensor | None:
        """The stacked biases, shape (3 width,), if this is the map to queries, keys and values."""
        bias: Tensor | None = getattr(self.owner, BIASES) if self.own == STACKED else None
        return bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def for_owner(self, owner: nn.Module) -> Self:
        return type(self)(owner, self.own)


class InProjectionRule(LinearRule):
    """A projection, or all three stacked, is one linear layer."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, InProjection)
        outputs, inputs = module.weight.shape
        return 1, outputs, inputs


IN_PROJECTION_RULE = InProjectionRule()


def is_attention(module: nn.Module) -> bool:
    """Return whether a module computes what `nn.MultiheadAttention` does."""
    if not isinstance(module, nn.MultiheadAttention) or "forward" in vars(module):
        return False
    return type(module).forward is nn.MultiheadAttention.forward


def in_projections(module: nn.Module, trainable: Collection[str]) -> Iterator[tuple[InProjection, dict[str, str]]]:
    """Yield the projections of an attention module that have trainable parameters.

    Args:
        module: the attention module.
        trainable: the names of its trainable parameters.

    Yields:
        Each projection, and what the attention module calls the weight and the bias of the projection.
    """
    if getattr(module, STACKED) is not None:
        if STACKED in trainable or BIASES in trainable:
            yield InProjection(module, STACKED), {"weight": STACKED, "bias": BIASES}
        return
    for own in SEPARATE:
        if own in trainable:
            yield InProjection(module, own), {"weight": own, "bias": ""}


@contextmanager
def exposed_attention(net: nn.Module, modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let every attention module of a network call its projections as modules, within the block.

    Args:
        net: the network.
        modules: the modules of its layers; the `InProjection`s among them are called.
    """
    known: dict[int, dict[str, InProjection]] = {}
    for module in modules:
        if isinstance(module, InProjection):
            known.setdefault(id(module.owner), {})[module.own] = module
    changed = [module for module in net.modules() if isinstance(module, nn.MultiheadAttention) and is_attention(module)]
    try:
        for module in changed:
            module.__dict__["forward"] = partial(_attend, module, known.get(id(module), {}))
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)


def _attend(
    module: nn.MultiheadAttention,
    projections: Mapping[str, InProjection],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute what `nn.MultiheadAttention.forward` does, with its arguments.

    Inputs without a batch and nested ones are left to PyTorch, and so is the error of a causal call without a mask. The
    audit refuses them if the module has trainable weights.
    """
    if query.dim() != 3 or query.is_nested or (is_causal and attn_mask is None):
        return nn.MultiheadAttention.forward(
            module, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
    q, k, v = _with_more_keys(module, *_projected(module, projections, query, key, value))
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (b, heads, queries, keys)
    if attn_mask is not None:
        by_head = attn_mask.dim() == 3  # (b heads, queries, keys)
        scores = scores + _additive(attn_mask.unflatten(0, scores.shape[:2]) if by_head else attn_mask, scores)
    if key_padding_mask is not None:
        scores = scores + _additive(key_padding_mask[:, None, None, :], scores)
    weights = F.dropout(scores.softmax(-1), module.dropout, module.training)
    result: Tensor = module.out_proj((weights @ v).transpose(1, 2).flatten(2))
    if not module.batch_first:
        result = result.transpose(0, 1)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def _projected(
    module: nn.MultiheadAttention, projections: Mapping[str, InProjection], *inputs: Tensor
) -> Iterator[Tensor]:
    """Yield queries, keys and values, each of shape (b, t, width), from the inputs of each."""
    stacked: dict[int, Tensor] = {}
    for number, x in enumerate(inputs):
        own = SEPARATE[number] if module.in_proj_weight is None else STACKED
        project = projections.get(own) or InProjection(module, own)
        if own == STACKED:
            if id(x) not in stacked:
                stacked[id(x)] = project(x if module.batch_first else x.transpose(0, 1))
            yield stacked[id(x)].chunk(3, dim=-1)[number]
        else:
            projected = project(x if module.batch_first else x.transpose(0, 1))
            yield projected if module.in_proj_bias is None else projected + module.in_proj_bias.chunk(3)[number]


def _with_more_keys(module: nn.MultiheadAttention, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """Return queries, keys and values by head, (b, heads, t, width / heads), with the keys and values appended to all.

    They are those of `add_bias_kv`, which are parameters, and then those of `add_zero_attn`, which are zero.
    """
    if module.bias_k is not None and module.bias_v is not None:
        k = torch.cat([k, module.bias_k.expand(len(k), -1, -1)], dim=1)
        v = torch.cat([v, module.bias_v.expand(len(v), -1, -1)], dim=1)
    if module.add_zero_attn:
        k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
    return [part.unflatten(2, (module.num_heads, -1)).transpose(1, 2) for part in (q, k, v)]


def _additive(mask: Tensor, scores: Tensor) -> Tensor:
    """Return a mask as numbers to add to the scores: minus infinity where a mask of truth values is True.

    Keys that the module appends by itself are not masked.
    """
    appended = scores.shape[-1] - mask.shape[-1]
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, -torch.inf)
    return F.pad(mask, (0, appended)) if appended else mask
