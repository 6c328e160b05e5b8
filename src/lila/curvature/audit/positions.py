"""Whether a layer acts at as many positions of each input, which a pass over the data checks at no cost.

The Kronecker factors are averaged over positions. A layer that runs for some inputs only would be averaged over those
that happen to be in a batch with an input for which it runs.
"""

from torch import Tensor

from lila.curvature.autograd.tape import Tape
from lila.curvature.layers import Layer
from lila.errors import ModelError


def check_positions(layer: Layer, least: int, most: int) -> None:
    """Raise ModelError unless the least and the largest number of positions of an input are the same."""
    if least != most:
        raise ModelError(
            f"The layer {layer.name!r} runs for some inputs only, or more often for some: its weights act at {least} "
            f"positions of one input and at {most} of another. The curvature would depend on which inputs are "
            "together in a batch. Let every layer see every input (torch.where selects among results afterwards), or "
            "freeze its parameters."
        )


class Positions:
    """The number of positions at which each layer acts, which must be the same in all batches of a pass."""

    def __init__(self) -> None:
        self._by_shape: dict[tuple[int, ...], list[int]] = {}

    def check(self, tape: Tape, x: Tensor) -> None:
        """Raise ModelError if a layer acts at another number of positions than in earlier batches.

        Args:
            tape: the recorded batch.
            x: its inputs; those of another shape may have another number of positions.
        """
        found = [sum(a.shape[1] for a in uses) for uses in tape.uses]
        expected = self._by_shape.setdefault(tuple(x.shape[1:]), found)
        for layer, one, other in zip(tape.layers, found, expected, strict=True):
            check_positions(layer, min(one, other), max(one, other))
