"""Whether the layers account for autograd's gradient of every weight.

For inputs n, directions u_n in the outputs and any factors c_n, the gradient of sum_n c_n <u_n, f(x_n)> in a weight
must be sum_n c_n sum_t g a' over the positions t of input n, where g is the gradient of sum_n <u_n, f(x_n)> in the
layer's output. Factors that all differ tell inputs from each other. Both sides come from one run, so that they differ
by the rounding of this sum alone. And in the graph of that run, a weight may enter only operations that ran inside its
layer: this finds other uses of a weight that have no effect on the inputs at hand.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from lila.curvature.audit.subject import Subject
from lila.curvature.finding import no_rule_message
from lila.curvature.inside.attention import InProjection
from lila.curvature.inside.exposed import exposed
from lila.curvature.inside.raw_parameters import ParameterCopies
from lila.curvature.layers import Layer
from lila.errors import ModelError


def check_gradients(subject: Subject) -> None:
    """Raise ModelError if the inputs and outputs of layers do not explain the gradients of their weights."""
    run = _Run.of(subject, subject.views)
    _check_uses(run)
    count, outputs = run.outputs.shape
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(count, outputs, generator=generator, dtype=torch.float64).to(run.outputs)
    c = torch.linspace(-1.7, 2.3, count).to(run.outputs)
    expected, found = run.weight_gradients(c[:, None] * u), run.output_gradients(u)
    largest = max(gradient.norm() for gradient in expected.values())
    for layer, uses, gradients in zip(run.layers, run.uses, found, strict=True):
        pairs = [(a, _arranged(layer, g, count)) for (a, _), g in zip(uses, gradients, strict=True) if g is not None]
        if not pairs:
            continue
        products = _summed([(a, c[:, None, None, None] * g) for a, g in pairs])
        for name, product in layer.split(products).items():
            gap = (product - expected[name]).norm()
            allowed = subject.tolerance() * expected[name].norm() + subject.unit**0.75 * largest
            if gap > allowed:
                rounding = _summed([(a.abs(), g.abs()) for a, g in pairs])  # of a sum that may have cancelled
                if gap > allowed + subject.unit**0.6 * layer.split(rounding)[name].norm():
                    raise ModelError(_message(layer, name, _explains_the_sum(run, layer, name, pairs, u)))


def _explains_the_sum(run: "_Run", layer: Layer, name: str, pairs: list[tuple[Tensor, Tensor]], u: Tensor) -> bool:
    """Whether a layer accounts for the gradient of all inputs together, if not for that of each of them."""
    expected, found = run.weight_gradients(u)[name], layer.split(_summed(pairs))[name]
    return bool((found - expected).norm() <= 1e-3 * expected.norm())


def _arranged(layer: Layer, gradient: Tensor, count: int) -> Tensor:
    """Return a gradient in the output of a layer as g, shape (v, t, r, o)."""
    return layer.rule.outputs(layer.module, gradient).unflatten(0, (count, -1)).flatten(1, 2)


def _summed(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the sum of g a' over inputs, positions and uses, shape (r, o, d)."""
    return torch.stack([torch.einsum("btro,btrd->rod", g, a) for a, g in pairs]).sum(0)


@dataclass
class _Run:
    """A run of the network with everything that its layers were given and returned.

    Attributes:
        layers: the layers.
        weights: their weights by name.
        outputs: of the network, with a graph to the weights.
        uses: per layer and use, the inputs a (v, t, r, d) and where the output enters the graph.
        spans: per layer and use, the numbers of the first and last operation inside it.
    """

    layers: tuple[Layer, ...]
    weights: dict[str, nn.Parameter]
    outputs: Tensor = field(init=False)
    uses: list[list[tuple[Tensor, GradientEdge]]] = field(init=False)
    spans: list[list[tuple[int, int]]] = field(init=False)

    @classmethod
    def of(cls, subject: Subject, views: Tensor) -> "_Run":
        """Run the network on some inputs."""
        every = dict(subject.net.named_parameters())
        run = cls(subject.layers, {name: every[name] for layer in subject.layers for name in layer.parameter_names})
        hooks: list[Any] = [subject.net.register_forward_pre_hook(run._begin)]
        for position, layer in enumerate(subject.layers):
            hooks.append(layer.module.register_forward_pre_hook(run._before(position)))
            hooks.append(layer.module.register_forward_hook(run._after(position, len(views)), with_kwargs=True))
        views = views.detach().requires_grad_()  # as in a pass
        try:
            with exposed(subject.net, subject.layers, every, views):
                run.outputs = subject.run(views)
        finally:
            for hook in hooks:
                hook.remove()
        return run

    def _begin(self, *_: Any) -> None:  # again, if the network is run anew in another memory layout
        self.uses, self.spans = [[] for _ in self.layers], [[] for _ in self.layers]

    def _before(self, position: int) -> Callable[..., None]:
        return lambda *_: self.spans[position].append((_operations_so_far(), -1))

    def _after(self, position: int, count: int) -> Callable[..., Tensor]:
        layer = self.layers[position]

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
            first, _ = self.spans[position].pop()
            self.spans[position].append((first, _operations_so_far()))
            x = args[0] if args else next(iter(kwargs.values()))
            with torch.no_grad():
                a = layer.inputs(layer.rule.features(module, x)).unflatten(0, (count, -1)).flatten(1, 2)
            output = output.clone()  # an activation in place must not change it
            self.uses[position].append((a, get_gradient_edge(output)))
            return output

        return hook

    def weight_gradients(self, columns: Tensor) -> dict[str, Tensor]:
        """Return the gradient of <columns, outputs> in each weight, by name."""
        weights = list(self.weights.values())
        found = torch.autograd.grad(self.outputs, weights, columns, retain_graph=True, materialize_grads=True)
        return dict(zip(self.weights, found, strict=True))

    def output_gradients(self, columns: Tensor) -> list[list[Tensor | None]]:
        """Return the gradient of <columns, outputs> in the output of each use of each layer; None if there is none."""
        edges = [edge for uses in self.uses for _, edge in uses]
        found = iter(
            torch.autograd.grad(self.outputs, edges, columns, retain_graph=True, allow_unused=True) if edges else ()
        )
        return [[next(found) for _ in uses] for uses in self.uses]


def check_memory(net: nn.Module) -> None:
    """Raise ModelError if two parameters are the same numbers in memory, of which autograd knows nothing."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for name, parameter in net.named_parameters():
        reach = sum((n - 1) * stride for n, stride in zip(parameter.shape, parameter.stride(), strict=True))
        start = parameter.data_ptr()
        if parameter.numel():
            end = start + reach * parameter.element_size()
            spans.setdefault(parameter.untyped_storage().data_ptr(), []).append((start, end, name))
    for of_storage in spans.values():
        for (_, end, first), (start, _, second) in pairwise(sorted(of_storage)):
            if start <= end:
                raise ModelError(
                    f"The parameters {sorted((first, second))} share memory, so that a step of one changes the other, "
                    "but autograd takes them for two. Use the same module twice instead, or give each its own weight."
                )


def _operations_so_far() -> int:
    """The number that autograd gives to an operation that is run now; numbers rise by one from each to the next."""
    with torch.enable_grad():
        node: Any = torch.zeros((), requires_grad=True).clone().grad_fn
    return int(node._sequence_nr())


def parameters_used_otherwise(subject: Subject) -> list[str]:
    """Return the parameters without a layer that the network does not only add, multiply or concatenate."""
    run = _Run.of(subject, subject.views)
    return [run.layers[position].name for position in _uses_outside(run) if run.layers[position].is_parameter]


def _check_uses(run: _Run) -> None:
    """Raise ModelError if a weight enters an operation that did not run inside its layer."""
    outside = _uses_outside(run)
    if not outside:
        return
    position, uses = min(outside.items())
    layer, operations = run.layers[position], ", ".join(sorted(set(uses.values())))
    if isinstance(layer.module, ParameterCopies):
        raise ModelError(no_rule_message(layer.owner, layer.module.owner, [layer.module.own], operations))
    names = [name for name in layer.parameter_names if name in uses]
    if isinstance(layer.module, InProjection):
        raise ModelError(
            f"The weights {names} are used in a way that the curvature does not see, by {operations}: {layer.owner!r} "
            "is given nested tensors or sequences without a batch, or its weights are used elsewhere too. Give "
            "nn.MultiheadAttention a batch of sequences, (batch, sequence, width) with batch_first=True, and use its "
            "weights through its calls alone."
        )
    raise ModelError(
        f"The weights {names} are used outside of the forward "
        f"of their layer {layer.name!r}, where the curvature does not see it, by {operations}: tied, through "
        "torch.nn.functional, or by a call of the layer's forward rather than of the layer. Use each weight through a "
        "call of its own layer, or register a rule for the module that uses it with lila.register_rule."
    )


def _uses_outside(run: _Run) -> dict[int, dict[str, str]]:
    """Return the operations that did not run inside a layer but use its weights, by its position and their names."""
    owners = {
        id(run.weights[name]): (name, position)
        for position, layer in enumerate(run.layers)
        for name in layer.parameter_names
    }
    outside: dict[int, dict[str, str]] = {}
    for node in _nodes(run.outputs.grad_fn):
        for source, _ in node.next_functions:
            name, position = owners.get(id(getattr(source, "variable", None)), ("", -1))
            number = node._sequence_nr()
            if name and not any(first < number < last for first, last in run.spans[position]):
                outside.setdefault(position, {})[name] = node.name()
    return outside


def _nodes(start: Node | None) -> Iterator[Node]:
    seen: set[Node] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [source for source, _ in node.next_functions]


def _message(layer: Layer, name: str, in_other_rows: bool) -> str:
    """What is wrong with a layer whose inputs and outputs do not explain the gradient of a weight."""
    said = f"The gradient of {name!r} is not explained by the inputs and outputs of its layer"
    if in_other_rows:
        return (
            f"{said}: {layer.name!r} does not keep the inputs of the batch in their order, or in its first dimension, "
            "so that what belongs to which example cannot be told. Give every layer the batch first and in the order "
            "of the network's inputs."
        )
    kind = type(layer.module)
    owner = next(parent for parent in kind.__mro__ if "forward" in vars(parent))
    if type(layer.rule).__module__.startswith("lila.") and not owner.__module__.startswith(("torch.", "lila.")):
        return (
            f"{said} {layer.name!r}, whose class {owner.__name__} has a forward of its own: it does something else "
            f"with its weights than the class that the rule {type(layer.rule).__name__} was made for. Use that class, "
            "or register a rule for yours with lila.register_rule."
        )
    return (
        f"{said} {layer.name!r} ({kind.__name__}) by its rule {type(layer.rule).__name__}. If the rule is your own, "
        "sum_t g a' of its outputs and inputs must be the gradient of the weight; if it is not, the layer's inputs or "
        "outputs are changed behind its back, by hooks or through views in place."
    )
