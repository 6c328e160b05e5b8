"""Speed-up: two layers that have the same gradient at their outputs share it.

A layer that adds a constant, y = x + b, passes the gradient at y on to x unchanged. If x is the output of a recorded
layer itself, and nothing but this addition uses it, both layers have one gradient. It is then averaged over the samples
once, and the cotangents of both layers are added before they are spread over the samples again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from lila.curvature.autograd.graph import Key, key, walk


class SharedGradients:
    """The additions of a constant that were seen while a network ran.

    Attributes:
        sums: for each edge x, given by its key, the edge of the recorded output y = x + b.
    """

    def __init__(self) -> None:
        self.sums: dict[Key, GradientEdge] = {}

    def note(self, x: Tensor, output: Tensor, edge: GradientEdge) -> None:
        """Note that a layer turned x into an output, whose edge is given."""
        source = _summand(x, output)
        if source is not None:
            self.sums[source] = edge

    def merge(self, edges: Iterable[Iterable[GradientEdge]], outputs: Tensor) -> tuple[tuple[GradientEdge, ...], ...]:
        """Replace each edge by the last edge that has the same gradient.

        Args:
            edges: per layer, the edge at the output of each of its uses.
            outputs: the outputs of the network.
        """
        users = _users(outputs)

        def last(edge: GradientEdge) -> GradientEdge:
            while key(edge) in self.sums and users[key(edge)] == [self.sums[key(edge)].node]:
                edge = self.sums[key(edge)]
            return edge

        return tuple(tuple(map(last, of_layer)) for of_layer in edges)


def _summand(x: Tensor, output: Tensor) -> Key | None:
    """Return the key of the edge of x if the output is x plus a constant, else None."""
    node = output.grad_fn
    if x.grad_fn is None or node is None or node.name() != "AddBackward0" or x.shape != output.shape:
        return None
    source = x.grad_fn, x.output_nr
    return source if node.next_functions == (source, (None, 0)) else None


def _users(outputs: Tensor) -> Mapping[Key, list[Node]]:
    """Return, for each edge, the nodes that use it on the way to the outputs."""
    users: defaultdict[Key, list[Node]] = defaultdict(list)
    for node in walk(outputs):
        for source, position in node.next_functions:
            if source is not None:
                users[source, position].append(node)
    return users
