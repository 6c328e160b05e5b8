"""Running the invariant network so that a tape of its layers remains."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lila.curvature.autograd.edges import Key, merged, shifted
from lila.curvature.autograd.lean import LeanOperations
from lila.curvature.autograd.linearity import linear_between_kinks
from lila.curvature.autograd.tape import Samples, Tape, sum_over_samples
from lila.curvature.layers import Layer
from lila.curvature.rules import LinearRule
from lila.errors import ModelError
from lila.model.invariant import InvariantModel


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
    views = model.views(x, noise)
    if not (differentiable and views.requires_grad):
        # Every layer's output needs a place in the graph; a copy, as a network may begin with an in-place operation.
        with torch.enable_grad():
            views = views.detach().requires_grad_().clone()
    start = views.grad_fn
    weights = {name: p.detach() for name, p in model.net.named_parameters()}
    recorder = _Recorder(tuple(layers), len(x), len(views), samples, differentiable)
    hooks = recorder.attach(model.net)
    try:
        with torch.enable_grad(), LeanOperations():
            outputs = model.average(views, len(x), weights)
            outputs, head = recorder.with_head(outputs)
    finally:
        for hook in hooks:
            hook.remove()
    return Tape(
        outputs=outputs,
        each=recorder.returned,
        layers=recorder.layers,
        uses=tuple(map(tuple, recorder.uses)),
        edges=merged(recorder.edges, recorder.shifts, outputs),
        views=len(views),
        samples=samples,
        differentiable=differentiable,
        linear=differentiable and linear_between_kinks(outputs, start),
        head=head,
    )


@dataclass
class _Recorder:
    """What is noted down while the network runs.

    Attributes:
        layers: the layers to record.
        batch: b, the number of examples.
        views: v = b s, the number of the network's inputs.
        samples: what becomes of the samples of an example.
        differentiable: whether inputs keep a graph.
        uses: per layer, the inputs a of each use.
        edges: per layer, where the output of each use enters the graph.
        shifts: by the key of an edge, that of the output of a layer which adds a constant to it.
        last: position, input, averaged inputs with a graph, and output of the layer that ran last.
        returned: what the network returned.
    """

    layers: tuple[Layer, ...]
    batch: int
    views: int
    samples: Samples
    differentiable: bool
    uses: list[list[Tensor]] = field(init=False)
    edges: list[list[GradientEdge]] = field(init=False)
    shifts: dict[Key, GradientEdge] = field(init=False)
    last: tuple[int, Tensor, Tensor, Tensor] | None = field(init=False)
    returned: Any = field(init=False)

    def attach(self, net: nn.Module) -> list[Any]:
        """Hooks that note everything, to be removed after the run."""
        of_layers = [
            layer.module.register_forward_hook(self._hook(position), with_kwargs=True)
            for position, layer in enumerate(self.layers)
        ]
        return [*of_layers, net.register_forward_pre_hook(self._begin), net.register_forward_hook(self._end)]

    def with_head(self, outputs: Tensor) -> tuple[Tensor, int | None]:
        """The averaged outputs, given by the head at its averaged inputs if there is one, and its position."""
        if self.samples is not Samples.AVERAGED or self.last is None:
            return outputs, None
        position, x, a, output = self.last
        if output is not self.returned or len(self.uses[position]) > 1:
            return outputs, None
        module = _as_affine(self.layers[position], x, output)
        if module is None or self.layers[position].weight is None:  # frozen: its inputs were not recorded
            return outputs, None
        bias = None if module.bias is None else module.bias.detach()
        outputs = F.linear(a[:, 0, 0, : module.in_features], module.weight.detach(), bias)
        self.edges[position][-1] = get_gradient_edge(outputs)
        return outputs, position

    def _begin(self, *_: Any) -> None:
        """Start anew, as does a network that is run again in another layout."""
        self.uses, self.edges = [[] for _ in self.layers], [[] for _ in self.layers]
        self.shifts = {}
        self.last = self.returned = None

    def _end(self, net: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.returned = output

    def _hook(self, position: int) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Tensor], Tensor | None]:
        layer = self.layers[position]

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor | None:
            if not output.requires_grad:
                raise ModelError(
                    f"The output of {layer.name!r} has no gradient: the network runs it under torch.no_grad() or "
                    "detaches what comes before it. Freeze its parameters if that is meant."
                )
            x = args[0] if args else next(iter(kwargs.values()))
            a = self._inputs(layer, x)
            self.uses[position].append(a if self.differentiable else a.detach())
            # The edge, not the tensor: an in-place activation would take the tensor to the other side of itself.
            edge = get_gradient_edge(output)
            self.edges[position].append(edge)
            if (source := shifted(x, output)) is not None:
                self.shifts[source] = edge
            self.last = position, x, a, output
            # Autograd rewrites the history of a view that is changed in place, and the edge with it: hand on a copy.
            return output.clone() if output._is_view() else None

        return hook

    def _inputs(self, layer: Layer, x: Tensor) -> Tensor:
        """The layer's inputs a, shape (b, t, r, d); averaging commutes with everything linear, so it comes first."""
        if x.shape[0] % self.views:
            raise ModelError(
                f"Layer {layer.name!r} got an input of shape {tuple(x.shape)} when the network was given "
                f"{self.views} inputs. The first dimension of every layer's input must run over the network's "
                "inputs (batch first), so that what belongs to which example can be told."
            )
        raw = layer.rule.features(layer.module, x)
        if self.samples is Samples.AVERAGED:
            raw = sum_over_samples(raw, self.batch, self.views) / (self.views // self.batch)
        return layer.inputs(raw).unflatten(0, (self.batch, -1)).flatten(1, 2)


def _as_affine(layer: Layer, x: Tensor, output: Tensor) -> nn.Linear | None:
    """The module of a layer that is `nn.Linear` and nothing else, used with one position per view; or None."""
    module = layer.module
    if not isinstance(module, nn.Linear) or type(module) is not nn.Linear or type(layer.rule) is not LinearRule:
        return None
    made_by = output.grad_fn.name() if output.grad_fn else ""
    return module if x.dim() == 2 and made_by in ("AddmmBackward0", "MmBackward0") else None
