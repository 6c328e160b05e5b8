"""Layers that have the same gradient at their outputs, read off the graph that autograd recorded.

A layer that adds a constant, y = x + b, hands the gradient at y on to x. If x goes nowhere else, and is the output of a
recorded layer itself, the two layers have one gradient: it need be averaged over the samples only once, and its
cotangents are added before they are spread over the samples again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

Key = tuple[Node, int]
"""What tells one edge from another."""


def key(edge: GradientEdge) -> Key:
    """The key of an edge."""
    return edge.node, edge.output_nr


def shifted(x: Tensor, output: Tensor) -> Key | None:
    """The key of the edge of x if the output is x plus a constant, else None."""
    node = output.grad_fn
    if x.grad_fn is None or node is None or node.name() != "AddBackward0" or x.shape != output.shape:
        return None
    source = x.grad_fn, x.output_nr
    return source if node.next_functions == (source, (None, 0)) else None


def merged(
    edges: Iterable[Iterable[GradientEdge]], shifts: Mapping[Key, GradientEdge], outputs: Tensor
) -> tuple[tuple[GradientEdge, ...], ...]:
    """Edges with each replaced by the last of those that have the same gradient.

    Args:
        edges: per layer, where the output of each of its uses enters the graph.
        shifts: by the key of an edge, that of the same plus a constant.
        outputs: of the network.
    """
    users = _users(outputs)

    def last(edge: GradientEdge) -> GradientEdge:
        while key(edge) in shifts and users[key(edge)] == [shifts[key(edge)].node]:
            edge = shifts[key(edge)]
        return edge

    return tuple(tuple(map(last, of_layer)) for of_layer in edges)


def _users(outputs: Tensor) -> Mapping[Key, list[Node]]:
    """By the key of an edge, the nodes that use it on the way to the outputs."""
    users: defaultdict[Key, list[Node]] = defaultdict(list)
    for node in walk(outputs):
        for source, position in node.next_functions:
            if source is not None:
                users[source, position].append(node)
    return users


def walk(outputs: Tensor, start: Node | None = None) -> Iterator[Node]:
    """Every node of the graph that leads to the outputs, each once; nothing from `start` on backwards."""
    todo: list[Node | None] = [outputs.grad_fn]
    seen: set[Node | None] = {start, None}
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo += [source for source, _ in node.next_functions]
