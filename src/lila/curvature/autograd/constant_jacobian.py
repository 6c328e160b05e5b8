"""Speed-up: the Jacobian of a network that is linear between its kinks is a constant.

Rectified units, max pooling, convolutions and linear layers have no second derivative. In a network of such parts the
Jacobian J does not change with the input, except at the kinks, which have measure zero. The pulled-back columns
g = J' u then depend on the hyperparameters through u alone, which saves work twice:

- The gradient in u of a cotangent v of g is J v. A second derivative of the network would only add zeros.
- An inner product sum_k g_k' P g_k is <J P J', sum_k u_k u_k'>, and only the second factor depends on the outputs. If
  there are few outputs, computing the rows of J costs less than pulling back every column and pushing its cotangent
  forward again.

Whether a network is linear between its kinks is read from the graph that autograd recorded while it ran. (A unit that
begins to fire changes J abruptly. No derivative sees that, neither this one nor autograd's. The change is small if many
units share the curvature.)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import Node

from lila.curvature.autograd.graph import walk
from lila.curvature.moments import Contribution, Outer, bilinear
from lila.curvature.roots import Columns

_SUMS = {
    *("AddBackward0", "SubBackward0", "NegBackward0", "CatBackward0", "StackBackward0", "CloneBackward0"),
    *("SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1"),
    *("AvgPool2DBackward0", "AdaptiveAvgPool2DBackward0", "ConstantPadNdBackward0"),
    *("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0"),
    *("AsStridedBackward0", "AsStridedBackward1"),
    *("PermuteBackward0", "TransposeBackward0", "TBackward0", "SliceBackward0", "SelectBackward0"),
    *("SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"),
    *("ReluBackward0", "LeakyReluBackward0", "LeakyReluBackward1", "HardtanhBackward0", "ClampBackward1"),
    *("ThresholdBackward0", "ThresholdBackward1", "MaxPool2DWithIndicesBackward0"),
    *("IndexSelectBackward0", "torch::autograd::AccumulateGrad"),  # the copies of a parameter for each view
}
"""Operations that are linear, or linear between kinks, in all their inputs together."""

_PRODUCTS = {
    *("MulBackward0", "DivBackward0", "AddmmBackward0", "MmBackward0", "BmmBackward0", "MvBackward0"),
    *("ConvolutionBackward0", "_ConstantConvolutionBackward", "PreluKernelBackward0"),
}
"""Operations that are linear in one input if the others are constants; a quotient is linear in its numerator."""

_LINEAR_IN_EVALUATION_MODE = {"NativeBatchNormBackward0", "CudnnBatchNormBackward0"}
"""Operations that are linear in their input if their statistics, scale and shift are constants."""


def linear_between_kinks(outputs: Tensor, start: Node | None) -> bool:
    """Return whether outputs are linear between kinks, as far as the names of the recorded operations tell.

    Args:
        outputs: the outputs of the network.
        start: the node that made the network's inputs, noted before the network ran, as it may change them in place.
    """
    for node in walk(outputs, start):
        if node.name() not in _SUMS:
            by = [position for position, (source, _) in enumerate(node.next_functions) if source is not None]
            if node.name() in _LINEAR_IN_EVALUATION_MODE and by == [0] and not getattr(node, "_saved_training", True):
                continue
            if node.name() not in _PRODUCTS or len(by) > 1 or (node.name() == "DivBackward0" and by != [0]):
                return False
    return True


def pull_back(column: Tensor, gradients: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return g = J' u for a constant J, differentiable in the column u.

    Args:
        column: u, shape (b, c).
        gradients: returns J' u with a graph to u.
    """
    pulled: tuple[Tensor, ...] = _PullBack.apply(column, gradients)  # type: ignore[no-untyped-call]
    return pulled


class _PullBack(torch.autograd.Function):
    """g = J' u with a constant J: the gradient in u of a cotangent v is J v, and there is no other gradient."""

    @staticmethod
    def forward(ctx: Any, column: Tensor, gradients: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        ctx.column = column.detach().requires_grad_()
        with torch.enable_grad():
            ctx.pulled = gradients(ctx.column)
        return tuple(g.detach() for g in ctx.pulled)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None]:
        pairs = [(g, v) for g, v in zip(ctx.pulled, cotangents, strict=True) if g.requires_grad]
        if not pairs:  # no layer reaches the output
            return torch.zeros_like(ctx.column), None
        pulled, cotangents = zip(*pairs, strict=True)
        (pushed,) = torch.autograd.grad(pulled, ctx.column, cotangents)
        return pushed, None


def inner_by_rows(
    cotangents: Sequence[Tensor],
    columns: Columns,
    of_column: Callable[[Tensor], Sequence[Contribution]],
) -> Iterator[Tensor]:
    """Yield the terms of sum_k g_k' P g_k, one per factor, as <J P J', sum_k u_k u_k'>.

    Args:
        cotangents: the cotangents P of all tensors of a structure.
        columns: the columns u_k.
        of_column: returns what a column (c,), pulled back for all examples without a graph, adds to the factors; each
            contribution has an `Outer`.
    """
    D = columns.directions()  # (c, d), of which the rows of J are computed
    rows = [of_column(direction) for direction in D.mT]
    u = columns.u @ D  # (b, k, d)
    hessians = u.mT @ u  # (b, d, d)
    for parts in zip(*rows, strict=True):
        outers = [part.moment for part in parts if isinstance(part.moment, Outer)]
        x = torch.stack([outer.x for outer in outers], dim=1)  # (b, d, t, r, o)
        yield outers[0].weight * (bilinear(x, cotangents[parts[0].tensor]) * hessians).sum()
