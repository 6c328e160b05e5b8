"""The contract of a curvature structure: what Kron, Diag and Full have in common.

A structure is a sum over examples, held in a few tensors. A batch contributes to each of them, and the sum answers for
its log-determinant under any prior. The gradient of that log-determinant by the sum itself, its cotangent, is an object
of the same class, so that

    d log|H| / d eta = sum over batches of d <cotangent, batch(eta)> / d eta        (Section 4.3, eq. 16)

needs one batch's graph at a time.

Structures are frozen. `lila.curvature.sums.CurvatureSum` is the sum that grows while batches are added.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila._util.ranks import Ranks
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.layers import Layer
from lila.curvature.moments import Contribution
from lila.curvature.roots import Columns
from lila.errors import ArgumentError
from lila.model.prior import PriorStructure

_SLOPE_STEP = 1e-5  # of a central difference, as a share of the largest entry


class Structure(ABC):
    """An approximation to the curvature of the negative log-likelihood, summed over examples.

    Attributes:
        samples: what the tape must do with the samples of an example.
        layers: the layers whose weights the curvature is over, in order.
    """

    samples: ClassVar[Samples]
    layers: tuple[Layer, ...]

    @classmethod
    @abstractmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        """Return the sum over no examples, on the device and in the type of a tensor."""

    @classmethod
    @abstractmethod
    def contributions(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """Yield what a recorded batch adds to the tensors, for these columns; differentiable if the tape is."""

    @abstractmethod
    def factors(self) -> Mapping[str, Tensor]:
        """Return the tensors that make up the curvature, each by a name that an error message can use."""

    def tensors(self) -> list[Tensor]:
        """Return every tensor that is a sum over examples: the factors, and whatever counts examples."""
        return list(self.factors().values())

    @abstractmethod
    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        """Return the same structure made of other tensors, in the order of `tensors`."""

    @abstractmethod
    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Return log|H + diag(delta)| in float64, differentiable in the precisions delta, given by parameter name."""

    def log_det_ratio(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Return log|I + diag(delta)^-1 H| in float64, differentiable in the precisions delta.

        By default it is the difference log|H + diag(delta)| - log|diag(delta)|. Structures that know the eigenvalues
        compute it without cancellation.
        """
        of_prior = torch.stack([layer.join(precisions).double().log().sum() for layer in self.layers]).sum()
        return self.log_det(precisions) - of_prior

    @abstractmethod
    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        """Return the gradient of log|H + diag(delta)| by the tensors."""

    def cotangent_slope(self, along: Self, precisions: Mapping[str, Tensor]) -> Self:
        """Return the derivative of the cotangent when the tensors change in a direction.

        By default it is a central difference in float64. Structures that know a closed form override it.

        Args:
            along: the direction, an object of the same class whose counts of examples are zero.
            precisions: delta by parameter name.
        """
        own, other = (max(float(tensor.abs().max()) for tensor in s.factors().values()) for s in (self, along))
        step = _SLOPE_STEP * (own or 1.0) / (other or 1.0)
        pairs = [
            (now.double(), step * then.double()) for now, then in zip(self.tensors(), along.tensors(), strict=True)
        ]
        wide = {name: delta.detach().double() for name, delta in precisions.items()}
        above, below = (
            self.with_tensors([now + sign * shift for now, shift in pairs]).cotangent(wide).tensors()
            for sign in (1, -1)
        )
        slopes = [(up - down) / (2 * step) for up, down in zip(above, below, strict=True)]
        return self.with_tensors([slope.to(now.dtype) for slope, now in zip(slopes, self.tensors(), strict=True)])

    @abstractmethod
    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        """Return the product J R with a root R of the posterior covariance, R R' = (H + diag(delta))^-1.

        Args:
            rows: J as one tensor (n, r, o, d) per layer.
            precisions: delta by parameter name.

        Returns:
            A tensor (n, P), whose inner products are J Sigma J'.
        """

    @abstractmethod
    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Return the product R z for each row z of (n, P), as one tensor (n, r, o, d) per layer.

        For standard normal z these are draws from the posterior around its mean.
        """

    @classmethod
    def check_prior(cls, prior: PriorStructure) -> None:
        """Raise ArgumentError if the structure does not go with a prior of this kind; by default it goes with all."""
        return

    @classmethod
    def of_batch(cls, tape: Tape, columns: Columns) -> Self:
        """Return the sum over the examples of a recorded batch, for these columns."""
        zeros = cls.zeros(tape.layers, tape.outputs)
        tensors = zeros.tensors()
        for contribution in cls.contributions(tape, columns):
            contribution.add_to_(tensors)
        return zeros.with_tensors(tensors)

    def scaled(self, factor: float) -> Self:
        """Return the curvature of a data set `factor` times as large, with tensors of its own."""
        return self.with_tensors([tensor * factor for tensor in self.tensors()])

    def inner(self, other: Self) -> Tensor:
        """Return the inner product of the factors with those of another object of the class, a scalar."""
        pairs = zip(self.factors().values(), other.factors().values(), strict=True)
        return torch.stack([(one * two).sum() for one, two in pairs]).sum()

    def inner_with_batch(self, tape: Tape, columns: Columns) -> Tensor:
        """Return the inner product of a cotangent with the curvature of a recorded batch, differentiable, in float64.

        It is <cotangent, of_batch(tape, columns)>, without computing the batch's curvature.
        """
        return sum_of_inners(self.contributions(tape, columns), self.tensors())

    def decomposition_cost(self, examples: int) -> float:
        """Return about what `decomposed` costs, in forward passes of the network on one view; 0 if next to nothing.

        Args:
            examples: the number of examples in the sum.
        """
        return 0.0

    def decomposed(self, ranks: Ranks) -> Self:
        """Return the same structure with its costly computations done, shared among processes that all have it."""
        return self


def sum_of_inners(contributions: Iterable[Contribution], cotangents: Sequence[Tensor]) -> Tensor:
    """Return the sum of the inner products of contributions with the cotangents of their tensors, in float64."""
    products = [contribution.inner(cotangents).double() for contribution in contributions]
    return torch.stack(products).sum() if products else torch.zeros((), dtype=torch.float64)


def check_precision(like: Tensor) -> None:
    """Raise if factors of this type could not be decomposed."""
    if like.dtype not in (torch.float32, torch.float64):
        raise ArgumentError(
            f"The network computes in {like.dtype}, in which matrices cannot be decomposed and the log-determinant "
            "would be meaningless. Convert it and the data to float32 (net.float()) for the evidence."
        )


def jacobian(g: Tensor, a: Tensor) -> Tensor:
    """Return the Jacobian in a layer's block, sum_t g[t, r, o] a[t, r, d], shape (b, r, o, d)."""
    return torch.einsum("btro,btrd->brod", g, a)


def as_blocks(rows: Tensor, layers: Sequence[Layer]) -> tuple[Tensor, ...]:
    """Split rows (n, P) over all weights into one tensor (n, r, o, d) per layer."""
    parts = rows.split([layer.size for layer in layers], dim=1)
    return tuple(part.reshape(-1, *layer.shape) for part, layer in zip(parts, layers, strict=True))
