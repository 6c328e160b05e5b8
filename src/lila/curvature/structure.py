"""The contract of a curvature structure: what Kron, Diag and Full have in common.

A structure is a sum over examples. Batches are added to it, each by its tape and columns (with or without a graph), and
the sum answers for its log-determinant under any prior. The gradient of that log-determinant by the sum itself, its
cotangent, is an object of the same class, so that

    d log|H| / d eta = sum over batches of d <cotangent, batch(eta)> / d eta        (eq. aug_grad_eff, jvp.tex)

needs one batch's graph at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila._util.ranks import Ranks
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.layers import Layer
from lila.curvature.roots import Columns
from lila.errors import ArgumentError


class Structure(ABC):
    """An approximation to the curvature of the negative log-likelihood, summed over examples.

    Attributes:
        samples: what the tape must do with the samples of an example.
    """

    samples: ClassVar[Samples]

    @classmethod
    @abstractmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        """The sum over no examples, on the device and in the type of a tensor."""

    @classmethod
    def of_batch(cls, tape: Tape, columns: Columns) -> Self:
        """The sum over the examples of a recorded batch, for these columns."""
        return cls.zeros(tape.layers, tape.outputs).plus_(tape, columns)

    @abstractmethod
    def plus_(self, tape: Tape, columns: Columns) -> Self:
        """The sum with the examples of a recorded batch, for these columns; its own tensors are used up for it."""

    @abstractmethod
    def over(self) -> tuple[Layer, ...]:
        """The layers whose weights it is over, in order."""

    @abstractmethod
    def parts(self) -> Mapping[str, Tensor]:
        """The factors that it consists of, by a name a person can make sense of."""

    def tensors(self) -> list[Tensor]:
        """Everything in it that is a sum over examples: its parts, and whatever counts examples."""
        return list(self.parts().values())

    @abstractmethod
    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        """The same structure made of other tensors, in the order of `tensors`."""

    def scaled(self, factor: float) -> Self:
        """The curvature of a data set `factor` times as large, with tensors of its own."""
        return self.with_tensors([tensor * factor for tensor in self.tensors()])

    @abstractmethod
    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """log|H + diag(delta)| in float64, differentiable in the precisions delta, given by parameter name."""

    @abstractmethod
    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        """The gradient of log|H + diag(delta)| by the summed quantities."""

    @abstractmethod
    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        """The product J R with a root R of the posterior covariance, R R' = (H + diag(delta))^-1.

        Args:
            rows: J as one tensor (n, r, o, d) per layer.
            precisions: delta by parameter name.

        Returns:
            A tensor (n, P), whose inner products are J Sigma J'.
        """

    @abstractmethod
    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The product R z for each row z of (n, P), as one tensor (n, r, o, d) per layer; draws, if z is normal."""

    @abstractmethod
    def inner(self, other: Self) -> Tensor:
        """The inner product with another object of the class, a scalar."""

    def along(self, tape: Tape, columns: Columns) -> Tensor:
        """The inner product of a cotangent with the curvature of a recorded batch, differentiable."""
        return self.inner(self.of_batch(tape, columns))

    def along_and_add_(self, tape: Tape, columns: Columns, total: Self) -> Tensor:
        """`along`, while the curvature of the same recorded batch is added to a total in place, without a graph."""
        batch = self.of_batch(tape, columns)
        for sum_, tensor in zip(total.tensors(), batch.tensors(), strict=True):
            sum_ += tensor.detach()
        return self.inner(batch)

    def over_all_(self, ranks: Ranks) -> Self:
        """The sum over the examples of all processes; its own tensors are used up for it."""
        ranks.sum_(self.tensors())
        return self

    def decomposition_cost(self, examples: int) -> float:
        """About what `decomposed` takes, in forward passes of the network on one view; 0 if that is next to nothing.

        Args:
            examples: the number of examples in the sum.
        """
        return 0.0

    def decomposed(self, ranks: Ranks) -> Self:
        """The same with whatever is costly about it done, shared out among processes that all have it."""
        return self


def check_precision(like: Tensor) -> None:
    """Raise if factors of this type could not be decomposed."""
    if like.dtype not in (torch.float32, torch.float64):
        raise ArgumentError(
            f"The network computes in {like.dtype}, in which matrices cannot be decomposed and the log-determinant "
            "would be meaningless. Convert it and the data to float32 (net.float()) for the evidence."
        )


def jacobian(g: Tensor, a: Tensor) -> Tensor:
    """The Jacobian in a layer's block, sum_t g[t, r, o] a[t, r, d]: shape (b, r, o, d)."""
    return torch.einsum("btro,btrd->brod", g, a)


def as_blocks(rows: Tensor, layers: Sequence[Layer]) -> tuple[Tensor, ...]:
    """Rows (n, P) over all weights as one tensor (n, r, o, d) per layer."""
    parts = rows.split([layer.size for layer in layers], dim=1)
    return tuple(part.reshape(-1, *layer.shape) for part, layer in zip(parts, layers, strict=True))
