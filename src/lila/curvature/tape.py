"""One run of the invariant network that remembers, for each layer, its inputs and the way back to its outputs.

For an invariant network the outputs are f_hat = 1/S sum_s f(x_s), so the gradient of f_hat at the layer's output for
view s is g_s / S. Summed over s it is the average of the Jacobians g_s (eq. kfac_aug). Kept apart, the samples act as
further positions: the Jacobian of f_hat in a layer's weights is sum_{s,t} (g_st / S) a_st' (eq. aug_ggn).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lila.curvature.convolution import ConstantConvolutions
from lila.curvature.layers import Layer
from lila.curvature.linearity import linear_between_kinks
from lila.errors import ModelError
from lila.invariant import InvariantModel


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
        layers: the layers recorded.
        uses: per layer, the inputs a of each of its uses, shape (b, t, r, d).
        edges: per layer, where the output of each of its uses enters the graph.
        views: v = b s, the number of inputs that the network was given.
        samples: what becomes of the samples of an example.
        differentiable: whether everything carries a graph to the hyperparameters.
        linear: whether the network is linear between its kinks.
    """

    outputs: Tensor
    layers: tuple[Layer, ...]
    uses: tuple[tuple[Tensor, ...], ...]
    edges: tuple[tuple[GradientEdge, ...], ...]
    views: int
    samples: Samples
    differentiable: bool
    linear: bool

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

    def pull_all(self, columns: Tensor) -> tuple[tuple[Tensor, ...], ...]:
        """The gradients of `pull` for each of the columns (b, c, k).

        For many columns of a network with constant J, the rows of J cost less than a pull and a push per column.
        """
        outputs, count = columns.shape[1:]
        if not (self.differentiable and self.linear and outputs <= 2 * count):
            return tuple(self.pull(column) for column in columns.unbind(2))
        unit_vectors = torch.eye(outputs, dtype=columns.dtype, device=columns.device)
        rows = [self.gradients(unit.expand_as(self.outputs), create_graph=False) for unit in unit_vectors]
        pulled = []
        for of_layer in zip(*rows, strict=True):
            J = torch.stack(of_layer, dim=1)  # (b, c, t, r, o)
            pulled.append((columns.mT @ J.flatten(2)).unflatten(2, J.shape[2:]).unbind(1))
        return tuple(zip(*pulled, strict=True))

    def gradients(self, column: Tensor, create_graph: bool) -> tuple[Tensor, ...]:
        """What `pull` returns, by autograd, with a graph or not."""
        edges = [edge for of_layer in self.edges for edge in of_layer]
        grads = iter(
            torch.autograd.grad(
                self.outputs,
                edges,
                grad_outputs=column,
                retain_graph=True,
                create_graph=create_graph,
                allow_unused=True,
            )
            if edges
            else ()
        )
        pulled = []
        for layer, uses in zip(self.layers, self.uses, strict=True):
            per_use = [self._arrange(layer, next(grads), a) for a in uses]
            pulled.append(self._join(per_use, layer, layer.shape[1]))
        return tuple(pulled)

    def _arrange(self, layer: Layer, grad: Tensor | None, a: Tensor) -> Tensor:
        if grad is None:  # the output does not depend on this use of the layer
            return a.new_zeros(*a.shape[:3], layer.shape[1])
        g = layer.rule.outputs(layer.module, grad)  # (v folds, t, r, o)
        batch = len(self.outputs)
        if self.samples is Samples.AVERAGED:
            return split_samples(g, batch, self.views).sum(1).flatten(1, 2)
        return g.unflatten(0, (batch, -1)).flatten(1, 2)

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


def record(
    model: InvariantModel, layers: Iterable[Layer], x: Tensor, noise: Tensor, samples: Samples, differentiable: bool
) -> Tape:
    """Run the invariant network on a batch and record its layers.

    The weights are constants here (detached, without touching the network), so no gradient to them is ever computed.

    Args:
        model: the invariant network.
        layers: those to record.
        x: inputs, shape (b, *shape).
        noise: shape (b, s, k).
        samples: what becomes of the samples of an example.
        differentiable: keep a graph to the parameters of the augmentation.
    """
    layers = tuple(layers)
    batch = x.shape[0]
    views = model.views(x, noise)
    if not (differentiable and views.requires_grad):
        # Every layer's output needs a place in the graph; a copy, as a network may begin with an in-place operation.
        views = views.detach().requires_grad_().clone()
    start = views.grad_fn
    uses: list[list[Tensor]] = [[] for _ in layers]
    edges: list[list[GradientEdge]] = [[] for _ in layers]

    def features(layer: Layer, x: Tensor) -> Tensor:
        """The layer's inputs a, shape (b, t, r, d); averaging commutes with everything linear, so it comes first."""
        if x.shape[0] % views.shape[0]:
            raise ModelError(
                f"Layer {layer.name!r} got an input of shape {tuple(x.shape)} when the network was given "
                f"{views.shape[0]} inputs. The first dimension of every layer's input must run over the network's "
                "inputs (batch first), so that what belongs to which example can be told."
            )
        raw = layer.rule.features(layer.module, x)
        if samples is Samples.AVERAGED:
            raw = _mean_over_samples(raw, batch, views.shape[0])
        return layer.inputs(raw).unflatten(0, (batch, -1)).flatten(1, 2)

    def hook_for(position: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Tensor], Tensor | None]:
        layer = layers[position]

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor | None:
            if not output.requires_grad:
                raise ModelError(
                    f"The output of {layer.name!r} has no gradient: the network runs it under torch.no_grad() or "
                    "detaches what comes before it. Freeze its parameters if that is meant."
                )
            with torch.set_grad_enabled(differentiable):
                uses[position].append(features(layer, args[0] if args else next(iter(kwargs.values()))))
            # The edge, not the tensor: an in-place activation would take the tensor to the other side of itself.
            edges[position].append(get_gradient_edge(output))
            # Autograd rewrites the history of a view that is changed in place, and the edge with it: hand on a copy.
            return output.clone() if output._is_view() else None

        return hook

    def forget(*_: Any) -> None:
        """A network that is run again, in another layout, begins anew."""
        for lists in (uses, edges):
            for of_layer in lists:
                of_layer.clear()

    weights = {name: p.detach() for name, p in model.net.named_parameters()}
    hooks = [layer.module.register_forward_hook(hook_for(i), with_kwargs=True) for i, layer in enumerate(layers)]
    hooks.append(model.net.register_forward_pre_hook(forget))
    try:
        with torch.enable_grad(), ConstantConvolutions():
            outputs = model.average(views, batch, weights)
    finally:
        for hook in hooks:
            hook.remove()
    linear = differentiable and linear_between_kinks(outputs, start)
    return Tape(outputs, layers, _frozen(uses), _frozen(edges), views.shape[0], samples, differentiable, linear)


def _mean_over_samples(x: Tensor, batch: int, views: int) -> Tensor:
    """(v folds, ...) to (b folds, ...), in the order in which they lie in memory, so that gradients keep the layout."""
    channels_last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    ordered = x.permute(0, 2, 3, 1) if channels_last else x
    mean = split_samples(ordered, batch, views).sum(1).flatten(0, 1) / (views // batch)
    return mean.permute(0, 3, 1, 2) if channels_last else mean


def split_samples(x: Tensor, batch: int, views: int) -> Tensor:
    """Take the first dimension apart: (v folds, ...) to (b, s, folds, ...)."""
    return x.reshape(batch, views // batch, x.shape[0] // views, *x.shape[1:])


def _frozen(lists: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, lists))
