"""The projections of `nn.MultiheadAttention`, which are no layers: their weights go to one function for everything.

Within `exposed` the module computes the same by separate operations: queries, keys and values by an `InProjection`,
the result by a call of `out_proj`, so that hooks see both. It also has the second derivative that fused attention
lacks. Sequences are arranged with the batch first before they are projected, whatever `batch_first` says.

The three projections are one linear map of stacked outputs (query, key, value). If queries, keys and values have
different inputs, the map is applied to each of these, and the outputs that are not used have a gradient of zero.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.curvature.inside.stand_in import StandIn
from lila.curvature.rules import LinearRule

IN_PROJECTION_NAMES = {"weight": "in_proj_weight", "bias": "in_proj_bias"}
"""What the attention module calls the parameters that the stand-in calls weight and bias."""


class InProjection(StandIn):
    """The linear map from the inputs of an attention module to its queries, keys and values."""

    @property
    def weight(self) -> Tensor:
        """The stacked weights, shape (3 width, width)."""
        weight: Tensor = getattr(self.owner, IN_PROJECTION_NAMES["weight"])
        return weight

    @property
    def bias(self) -> Tensor | None:
        """The stacked biases, shape (3 width,)."""
        bias: Tensor | None = getattr(self.owner, IN_PROJECTION_NAMES["bias"])
        return bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def for_owner(self, owner: nn.Module) -> Self:
        return type(self)(owner)


class InProjectionRule(LinearRule):
    """The stacked projections are one linear layer."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, InProjection)
        outputs, inputs = module.weight.shape
        return 1, outputs, inputs


IN_PROJECTION_RULE = InProjectionRule()


def is_attention(module: nn.Module) -> bool:
    """Return whether a module computes what `nn.MultiheadAttention` does, with inputs of one width."""
    if not isinstance(module, nn.MultiheadAttention) or "forward" in vars(module):
        return False
    return type(module).forward is nn.MultiheadAttention.forward and module.in_proj_weight is not None


@contextmanager
def exposed_attention(net: nn.Module, modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let every attention module of a network call its projections as modules, within the block.

    Args:
        net: the network.
        modules: the modules of its layers; the `InProjection`s among them are called.
    """
    known = {id(module.owner): module for module in modules if isinstance(module, InProjection)}
    changed = [module for module in net.modules() if is_attention(module)]
    try:
        for module in changed:
            module.__dict__["forward"] = partial(_attend, known.get(id(module)) or InProjection(module))
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)


def _attend(
    project: InProjection,
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

    Variants that need more than the projections and a mask are left to PyTorch; the audit refuses them if the module
    has trainable weights.
    """
    module = project.owner
    assert isinstance(module, nn.MultiheadAttention)
    needs_more = module.bias_k is not None or module.add_zero_attn or (is_causal and attn_mask is None)
    if needs_more or query.dim() != 3 or query.is_nested:
        return nn.MultiheadAttention.forward(
            module, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
    q, k, v = _projected(project, query, key, value)  # (b, heads, t, width / heads)
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


def _projected(project: InProjection, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Return queries, keys and values, each of shape (b, heads, t, width / heads)."""
    module = project.owner
    assert isinstance(module, nn.MultiheadAttention)
    stacked: dict[int, Tensor] = {}
    parts = []
    for number, x in enumerate((query, key, value)):
        if id(x) not in stacked:
            stacked[id(x)] = project(x if module.batch_first else x.transpose(0, 1))
        part = stacked[id(x)].chunk(3, dim=-1)[number]
        parts.append(part.unflatten(2, (module.num_heads, -1)).transpose(1, 2))
    return parts


def _additive(mask: Tensor, scores: Tensor) -> Tensor:
    """Return a mask as numbers to add to the scores: minus infinity where a mask of truth values is True."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, -torch.inf)
