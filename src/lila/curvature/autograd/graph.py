"""Edges and nodes of the graph that autograd recorded."""

from collections.abc import Iterator

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

Key = tuple[Node, int]
"""A node and the number of one of its outputs, by which two edges can be compared."""


def key(edge: GradientEdge) -> Key:
    """Return the key of an edge."""
    return edge.node, edge.output_nr


def walk(outputs: Tensor, start: Node | None = None) -> Iterator[Node]:
    """Yield every node of the graph that leads to the outputs once; stop at `start` and yield nothing before it."""
    todo: list[Node | None] = [outputs.grad_fn]
    seen: set[Node | None] = {start, None}
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo += [source for source, _ in node.next_functions]
