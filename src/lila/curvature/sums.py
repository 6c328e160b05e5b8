"""The sum of the curvatures of batches, which grows in place while a pass goes over the data."""

import torch
from torch import Tensor

from lila._util.ranks import Ranks
from lila.curvature.autograd.tape import Tape
from lila.curvature.moments import Contribution
from lila.curvature.roots import Columns
from lila.curvature.structure import Structure, sum_of_inners


class CurvatureSum:
    """A sum of curvatures to which batches are added in place.

    A `Structure` is frozen. A sum owns its tensors and changes them, so that it needs no memory beyond them.

    Args:
        zeros: the structure over no examples, or any other to start from; its tensors are changed.
    """

    def __init__(self, zeros: Structure) -> None:
        self._zeros, self._tensors = zeros, zeros.tensors()

    def tensors(self) -> list[Tensor]:
        """Return the tensors of the sum, not copied."""
        return self._tensors

    def structure(self) -> Structure:
        """Return the sum as a structure of the same tensors, not copied: it is valid until the sum changes."""
        return self._zeros.with_tensors(self._tensors)

    @torch.no_grad()
    def add(self, tape: Tape, columns: Columns) -> None:
        """Add the curvature of a recorded batch, for these columns."""
        for contribution in self._zeros.contributions(tape, columns):
            contribution.add_to_(self._tensors)

    def add_and_pair(self, tape: Tape, columns: Columns, cotangent: Structure) -> Tensor:
        """Add the curvature of a recorded batch, and return its inner product with a cotangent.

        The inner product is differentiable. Each column is pulled back once, for both.
        """

        def added(contribution: Contribution) -> Contribution:
            with torch.no_grad():
                contribution.add_to_(self._tensors)
            return contribution

        return sum_of_inners(map(added, self._zeros.contributions(tape, columns)), cotangent.tensors())

    def scale(self, factor: float) -> None:
        """Multiply the sum by a factor."""
        for tensor in self._tensors:
            tensor *= factor

    def clear(self) -> None:
        """Begin again from zero."""
        for tensor in self._tensors:
            tensor.zero_()

    def sum_over(self, ranks: Ranks) -> None:
        """Add the sums of all processes up."""
        ranks.sum_(self._tensors)
