"""Run the invariant network so that a tape of its layers remains."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lila.curvature.autograd.constant_jacobian import linear_between_kinks
from lila.curvature.autograd.lean_operations import LeanOperations
from lila.curvature.autograd.linear_head import LastUse
from lila.curvature.autograd.shared_gradients import SharedGradients
from lila.curvature.autograd.speedups import ALL_SPEEDUPS, Speedups
from lila.curvature.autograd.tape import Samples, Tape, sum_over_samples
from lila.curvature.inside.exposed import exposed
from lila.curvature.layers import Layer
from lila.errors import ModelError
from lila.model.invariant import InvariantModel


def record(
    model: InvariantModel,
    layers: Iterable[Layer],
    x: Tensor,
    noise: Tensor,
    samples: Samples,
    *,
    differentiable: bool,
    speedups: Speedups = ALL_SPEEDUPS,
) -> Tape:
    """Run the invariant network on a batch and record its layers.

    The weights are constants here (detached, without touching the network), so no gradient to them is ever computed.

    Args:
        model: the invariant network.
        layers: the layers to record.
        x: inputs, shape (b, *shape).
        noise: shape (b, s, k).
        samples: what becomes of the samples of an example.
        differentiable: whether to keep a graph to the parameters of the augmentation.
        speedups: the shortcuts to take.
    """
    views, view_weights = model.views(x, noise), model.view_weights(noise)
    if view_weights is not None and not differentiable:
        view_weights = view_weights.detach()
    if not (differentiable and views.requires_grad):
        # Every layer's output needs a place in the graph. The copy is for networks that begin with an in-place
        # operation.
        with torch.enable_grad():
            views = views.detach().requires_grad_().clone()
    start = views.grad_fn
    weights = {name: p.detach() for name, p in model.net.named_parameters()}
    recorder = _Recorder(tuple(layers), len(x), len(views), samples, differentiable, view_weights=view_weights)
    hooks = recorder.attach(model.net)
    try:
        with (
            torch.enable_grad(),
            LeanOperations() if speedups.lean_operations else nullcontext(),
            exposed(model.net, recorder.layers, weights, views),
        ):
            outputs, head = model.average(views, len(x), weights, view_weights=view_weights), None
            if speedups.linear_head:
                outputs, head = recorder.with_head(outputs)
    finally:
        for hook in hooks:
            hook.remove()
    edges = tuple(map(tuple, recorder.edges))
    return Tape(
        outputs=outputs,
        each=recorder.returned,
        layers=recorder.layers,
        uses=tuple(map(tuple, recorder.uses)),
        edges=recorder.shared.merge(edges, outputs) if speedups.shared_gradients else edges,
        views=len(views),
        samples=samples,
        differentiable=differentiable,
        constant_jacobian=speedups.constant_jacobian and differentiable and linear_between_kinks(outputs, start),
        head=head,
        speedups=speedups,
    )


@dataclass
class _Recorder:
    """What is noted while the network runs.

    Attributes:
        layers: the layers to record.
        batch: b, the number of examples.
        views: v = b s, the number of the network's inputs.
        samples: what becomes of the samples of an example.
        differentiable: whether inputs keep a graph.
        view_weights: the weight of each view in averages, shape (b, s); None if it is 1/S.
        uses: per layer, the inputs a of each use.
        edges: per layer, the edge of the graph at the output of each use.
        shared: the layers that add a constant to the output of another.
        last: the use of a layer that ran last.
        returned: what the network returned.
    """

    layers: tuple[Layer, ...]
    batch: int
    views: int
    samples: Samples
    differentiable: bool
    _: KW_ONLY
    view_weights: Tensor | None = None
    uses: list[list[Tensor]] = field(init=False)
    edges: list[list[GradientEdge]] = field(init=False)
    shared: SharedGradients = field(init=False, default_factory=SharedGradients)
    last: LastUse | None = field(init=False, default=None)
    returned: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.uses, self.edges = [[] for _ in self.layers], [[] for _ in self.layers]

    def attach(self, net: nn.Module) -> list[Any]:
        """Attach hooks that note everything, and return them; they are to be removed after the run."""
        of_layers = [
            layer.module.register_forward_hook(self._hook(position), with_kwargs=True)
            for position, layer in enumerate(self.layers)
        ]
        return [*of_layers, net.register_forward_hook(self._end)]

    def with_head(self, outputs: Tensor) -> tuple[Tensor, int | None]:
        """Return the averaged outputs, computed by the head from its averaged inputs, and the position of the head.

        If the network has no head, or samples are not averaged, the outputs stay as they are and the position is None.
        """
        last = self.last
        if last is None or self.samples is not Samples.AVERAGED or len(self.uses[last.position]) > 1:
            return outputs, None
        if not last.is_head(self.returned):
            return outputs, None
        outputs = last.averaged_outputs()
        self.edges[last.position][-1] = get_gradient_edge(outputs)
        return outputs, last.position

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
            # Note the edge and not the tensor: an in-place activation turns the tensor into the activation's result.
            edge = get_gradient_edge(output)
            self.edges[position].append(edge)
            self.shared.note(x, output, edge)
            self.last = LastUse(position, layer, x, a, output=output)
            # Autograd rewrites the history of a view that is changed in place, and the edge with it. So hand on a copy.
            return output.clone() if output._is_view() else None

        return hook

    def _inputs(self, layer: Layer, x: Tensor) -> Tensor:
        """Return a layer's inputs a, shape (b, t, r, d); the average comes first, as the rest is linear."""
        if x.shape[0] % self.views:
            raise ModelError(
                f"Layer {layer.name!r} got an input of shape {tuple(x.shape)} when the network was given "
                f"{self.views} inputs. The first dimension of every layer's input must run over the network's "
                "inputs (batch first), so that it is known which rows belong to which example."
            )
        raw = layer.rule.features(layer.module, x)
        if self.samples is Samples.AVERAGED:
            raw = self._average(raw)
        return layer.inputs(raw).unflatten(0, (self.batch, -1)).flatten(1, 2)

    def _average(self, raw: Tensor) -> Tensor:
        """Average features (v folds, ...) over the samples, to (b folds, ...)."""
        if self.view_weights is None:
            return sum_over_samples(raw, self.batch, self.views) / (self.views // self.batch)
        by_row = self.view_weights.flatten().repeat_interleave(raw.shape[0] // self.views).to(raw.dtype)
        return sum_over_samples(raw * by_row.reshape(-1, *(1 for _ in raw.shape[1:])), self.batch, self.views)
