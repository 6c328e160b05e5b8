"""What a run of the invariant network leaves behind: for each layer, its inputs and the way back to its outputs.

For an invariant network the outputs are f_hat = 1/S sum_s f(x_s), so the gradient of f_hat at the layer's output for
view s is g_s / S. Summed over s it is the average of the Jacobians g_s (eq. kfac_aug). Kept apart, the samples act as
further positions: the Jacobian of f_hat in a layer's weights is sum_{s,t} (g_st / S) a_st' (eq. aug_ggn).

Where the network ends in a linear layer, its head, f_hat = W (1/S sum_s h_s) + b for the inputs h_s of the head. Then
columns are pulled back through W once per example rather than once per view, and the head's own g are the columns.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import GradientEdge

from lila.curvature.autograd.edges import Key, key
from lila.curvature.layers import Layer


class Samples(Enum):
    """What becomes of the S samples of an example."""

    AVERAGED = "averaged"
    """Inputs and output gradients are averaged separately, as the Kronecker structure does."""
    POSITIONS = "positions"
    """They are further positions of the layer, so that the Jacobian itself is averaged."""


@dataclass(frozen=True)
class Tape:
    """A recorded run.

    Attributes:
        outputs: f_hat, shape (b, c), with a graph to the layers' outputs.
        each: f at each view, shape (v, c), with the same graph.
        layers: the layers recorded.
        uses: per layer, the inputs a of each of its uses, shape (b, t, r, d).
        edges: per layer, where the output of each of its uses enters the graph, or one with the same gradient.
        views: v = b s, the number of inputs that the network was given.
        samples: what becomes of the samples of an example.
        differentiable: whether everything carries a graph to the hyperparameters.
        linear: whether the network is linear between its kinks.
        head: position among the layers of the linear one that gives f_hat; its edge has a row per example. None if
            there is none, or the samples are positions.
    """

    outputs: Tensor
    each: Tensor
    layers: tuple[Layer, ...]
    uses: tuple[tuple[Tensor, ...], ...]
    edges: tuple[tuple[GradientEdge, ...], ...]
    views: int
    samples: Samples
    differentiable: bool
    linear: bool
    head: int | None = None

    def body(self) -> "Tape":
        """The same without the head: the layers to which columns must be pulled back."""
        kept = [position for position in range(len(self.layers)) if position != self.head]
        return replace(
            self,
            layers=tuple(self.layers[position] for position in kept),
            uses=tuple(self.uses[position] for position in kept),
            edges=tuple(self.edges[position] for position in kept),
            head=None,
        )

    def inputs(self) -> tuple[Tensor, ...]:
        """Per layer, the inputs a of all its uses, shape (b, t, r, d): further uses are further positions."""
        return tuple(
            self._join(list(uses), layer, layer.shape[2]) for layer, uses in zip(self.layers, self.uses, strict=True)
        )

    def pull(self, column: Tensor) -> tuple[Tensor, ...]:
        """Per layer, the gradients g of <column, f_hat> for a column (b, c), shape (b, t, r, o)."""
        if self.differentiable and self.linear and column.requires_grad:
            pulled: tuple[Tensor, ...] = _LinearPull.apply(column, self)  # type: ignore[no-untyped-call]
            return pulled
        return self.gradients(column, create_graph=self.differentiable and not self.linear)

    def gradients(self, column: Tensor, create_graph: bool) -> tuple[Tensor, ...]:
        """What `pull` returns, by autograd, with a graph or not."""
        edges = {key(edge): edge for of_layer in self.edges for edge in of_layer}  # layers may share one
        found = (
            torch.autograd.grad(
                self.outputs,
                list(edges.values()),
                grad_outputs=column,
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
            if edges
            else ()
        )
        grads = {at: self._over_samples(at, grad) for at, grad in zip(edges, found, strict=True)}
        return tuple(
            self._join(
                [self._arrange(layer, grads[key(edge)], a) for a, edge in zip(uses, of_layer, strict=True)],
                layer,
                layer.shape[1],
            )
            for layer, uses, of_layer in zip(self.layers, self.uses, self.edges, strict=True)
        )

    def _over_samples(self, at: Key, grad: Tensor | None) -> Tensor | None:
        """A gradient in a layer's output; if samples are averaged, their sum: (v folds, ...) to (b folds, ...)."""
        of_head = self.head is not None and at == key(self.edges[self.head][0])
        if grad is None or of_head or self.samples is Samples.POSITIONS:
            return grad
        return sum_over_samples(grad, len(self.outputs), self.views)

    def _arrange(self, layer: Layer, grad: Tensor | None, a: Tensor) -> Tensor:
        if grad is None:  # the output does not depend on this use of the layer
            return a.new_zeros(*a.shape[:3], layer.shape[1])
        g = layer.rule.outputs(layer.module, grad)  # (b folds, t, r, o), and with samples as positions (v folds, ...)
        return g.unflatten(0, (len(self.outputs), -1)).flatten(1, 2)

    def _join(self, uses: list[Tensor], layer: Layer, width: int) -> Tensor:
        if not uses:  # the layer was never reached: no positions at all
            return self.outputs.new_zeros(len(self.outputs), 0, layer.shape[0], width)
        return uses[0] if len(uses) == 1 else torch.cat(uses, dim=1)


class _LinearPull(torch.autograd.Function):
    """g = J' u of a network whose J is constant: the gradient in u of a cotangent v is J v, and there is no other."""

    @staticmethod
    def forward(ctx: Any, column: Tensor, tape: Tape) -> tuple[Tensor, ...]:
        ctx.column = column.detach().requires_grad_()
        with torch.enable_grad():
            ctx.pulled = tape.gradients(ctx.column, create_graph=True)
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


def sum_over_samples(x: Tensor, batch: int, views: int) -> Tensor:
    """(v folds, ...) to (b folds, ...), in the order in which they lie in memory, so that gradients keep the layout."""
    channels_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    ordered = x.permute(0, 2, 3, 1) if channels_last else x
    by_sample = ordered.reshape(batch, views // batch, x.shape[0] // views, *ordered.shape[1:])
    summed = by_sample.sum(1).flatten(0, 1)
    return summed.permute(0, 3, 1, 2) if channels_last else summed
