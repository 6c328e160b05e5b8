"""What a run of the invariant network leaves behind: each layer's inputs, and the way back to its outputs.

The outputs of an invariant network are f_hat = 1/S sum_s f(x_s), so the gradient of f_hat at a layer's output for view
s is g_s / S. Summed over s it is the average of the Jacobians g_s (Section 4.2, eq. 15). If the samples are kept apart,
they act as further positions: the Jacobian of f_hat in a layer's weights is sum_{s,t} (g_st / S) a_st' (Section 4.1,
eq. 12). Where views have weights, because their outcomes are enumerated, w_s takes the place of 1/S throughout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from lila.curvature.autograd import constant_jacobian
from lila.curvature.autograd.graph import Key, key
from lila.curvature.autograd.speedups import ALL_SPEEDUPS, Speedups
from lila.curvature.layers import Layer


class Samples(Enum):
    """What becomes of the S samples of an example."""

    AVERAGED = "averaged"
    """Inputs and output gradients are averaged separately, as the Kronecker structure does."""
    POSITIONS = "positions"
    """They are further positions of the layer, so that the Jacobian itself is averaged."""


@dataclass(frozen=True, kw_only=True)
class Tape:
    """A recorded run.

    Attributes:
        outputs: f_hat, shape (b, c), with a graph to the layers' outputs.
        each: the output f at each view, shape (v, c), with the same graph.
        layers: the recorded layers.
        uses: per layer, the inputs a of each of its uses, shape (b, t, r, d).
        edges: per layer, the edge of the graph at the output of each of its uses, or another edge with the same
            gradient.
        views: v = b s, the number of inputs that the network was given.
        samples: what becomes of the samples of an example.
        differentiable: whether everything carries a graph to the hyperparameters.
        constant_jacobian: whether the network is known to be linear between its kinks.
        head: the position, among the layers, of the linear layer that f_hat was computed by from averaged inputs; its
            edge has one row per example. None if there is no such layer.
        speedups: the shortcuts with which the run was recorded.
    """

    outputs: Tensor
    each: Tensor
    layers: tuple[Layer, ...]
    uses: tuple[tuple[Tensor, ...], ...]
    edges: tuple[tuple[GradientEdge, ...], ...]
    views: int
    samples: Samples
    differentiable: bool
    constant_jacobian: bool = False
    head: int | None = None
    speedups: Speedups = ALL_SPEEDUPS

    def inputs(self) -> tuple[Tensor, ...]:
        """Return, per layer, the inputs a of all its uses, shape (b, t, r, d): further uses are further positions."""
        return tuple(
            self._join(list(uses), layer, layer.shape[2]) for layer, uses in zip(self.layers, self.uses, strict=True)
        )

    def pull(self, column: Tensor, positions: Sequence[int] | None = None) -> tuple[Tensor, ...]:
        """Return, per layer, the gradients g of <column, f_hat>, shape (b, t, r, o).

        Args:
            column: a column in output space for each example, shape (b, c).
            positions: the positions of the layers that are wanted; all if None.
        """
        if self.differentiable and self.constant_jacobian and column.requires_grad:
            gradients = partial(self.gradients, positions=positions, create_graph=True)
            return constant_jacobian.pull_back(column, gradients)
        return self.gradients(column, positions, create_graph=self.differentiable and not self.constant_jacobian)

    def gradients(
        self, column: Tensor, positions: Sequence[int] | None = None, *, create_graph: bool
    ) -> tuple[Tensor, ...]:
        """Return what `pull` returns, computed by autograd, with a graph or without."""
        wanted = range(len(self.layers)) if positions is None else positions
        edges = {key(edge): edge for position in wanted for edge in self.edges[position]}  # layers may share one
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
        grads = {at: self._sum_over_samples(at, grad) for at, grad in zip(edges, found, strict=True)}
        return tuple(self._of_layer(position, grads) for position in wanted)

    def _sum_over_samples(self, at: Key, grad: Tensor | None) -> Tensor | None:
        """Sum a gradient over the samples, (v folds, ...) to (b folds, ...), if they are to be averaged."""
        of_head = self.head is not None and at == key(self.edges[self.head][0])
        if grad is None or of_head or self.samples is Samples.POSITIONS:
            return grad
        return sum_over_samples(grad, len(self.outputs), self.views)

    def _of_layer(self, position: int, grads: dict[Key, Tensor | None]) -> Tensor:
        layer = self.layers[position]
        uses = zip(self.uses[position], self.edges[position], strict=True)
        return self._join([self._arrange(layer, grads[key(edge)], a) for a, edge in uses], layer, layer.shape[1])

    def _arrange(self, layer: Layer, grad: Tensor | None, a: Tensor) -> Tensor:
        if grad is None:  # the output does not depend on this use of the layer
            return a.new_zeros(*a.shape[:3], layer.shape[1])
        g = layer.rule.outputs(layer.module, grad)  # (b folds, t, r, o), and with samples as positions (v folds, ...)
        return g.unflatten(0, (len(self.outputs), -1)).flatten(1, 2)

    def _join(self, uses: list[Tensor], layer: Layer, width: int) -> Tensor:
        if not uses:  # the layer was never reached: it has no positions at all
            return self.outputs.new_zeros(len(self.outputs), 0, layer.shape[0], width)
        return uses[0] if len(uses) == 1 else torch.cat(uses, dim=1)


def sum_over_samples(x: Tensor, batch: int, views: int) -> Tensor:
    """Sum (v folds, ...) to (b folds, ...) in the order of memory, so that gradients keep the layout of the images."""
    channels_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    ordered = x.permute(0, 2, 3, 1) if channels_last else x
    by_sample = ordered.reshape(batch, views // batch, x.shape[0] // views, *ordered.shape[1:])
    summed = by_sample.sum(1).flatten(0, 1)
    return summed.permute(0, 3, 1, 2) if channels_last else summed
