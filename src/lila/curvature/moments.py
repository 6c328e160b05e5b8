"""What a batch adds to the tensors of a structure, and the inner product of that with a cotangent.

Most tensors are second moments of vectors x, sum x x'. The inner product of such a sum with a symmetric matrix P is a
sum of quadratic forms, <P, sum x x'> = sum x' P x, so the sum itself need not be computed.

Vectors lie in memory as rows, (b, t, r, i), or as columns, (b, r, i, t), which is how unfolding the patches of a
convolution leaves them. Either is multiplied as it lies: a transposed copy would cost more than the product. Columns
take a product for each example, though, so if they are long and few, as in the last convolutions of a ResNet, they are
copied to rows: 32 examples with a column of 4,608 entries each are multiplied by that a hundred times as fast.

Indices: b examples, t positions (and columns of the output Hessian's root), r groups, i entries of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LONG = 4  # entries of a column for each of the columns of an example, from which on rows are faster


@dataclass(frozen=True)
class Outer:
    """The sum w sum_b sum_t x x' of outer products.

    Attributes:
        x: the vectors, shape (b, t, r, i).
        weight: the weight w.
    """

    x: Tensor
    weight: float = 1.0

    def add_to_(self, total: Tensor) -> None:
        """Add the sum in place to a total of shape (r, i, i), or (i, i) if there is one group."""
        add_second_moment_(_grouped(total), self.x, self.weight)

    def inner(self, P: Tensor) -> Tensor:
        """Return the inner product with a symmetric P of the total's shape, differentiable in x."""
        return self.weight * quadratic(self.x, _grouped(P))


@dataclass(frozen=True)
class Value:
    """A summand whose value is known.

    Attributes:
        value: a number, or a tensor that can be broadcast to the shape of the total.
    """

    value: Tensor | float

    def add_to_(self, total: Tensor) -> None:
        """Add the value to a total in place."""
        total += self.value

    def inner(self, P: Tensor) -> Tensor:
        """Return the inner product with a P of the total's shape, differentiable in the value."""
        return (P * self.value).sum()


@dataclass(frozen=True)
class Contribution:
    """What a batch adds to one of the tensors of a structure.

    Attributes:
        tensor: the position of the tensor in `Structure.tensors`.
        moment: what is added to it.
    """

    tensor: int
    moment: Outer | Value

    def add_to_(self, totals: Sequence[Tensor]) -> None:
        """Add it in place to its tensor among all tensors of a structure."""
        self.moment.add_to_(totals[self.tensor])

    def inner(self, cotangents: Sequence[Tensor]) -> Tensor:
        """Return its inner product with the cotangent of its tensor, differentiable."""
        return self.moment.inner(cotangents[self.tensor])


def add_second_moment_(total: Tensor, x: Tensor, weight: float = 1.0) -> None:
    """Add w sum_b sum_t x x' of vectors x (b, t, r, i) in place to a total (r, i, i), which may be larger than x."""
    if _are_columns(x):
        columns = _as_columns(x)
        total.add_((columns @ columns.mT).sum(0), alpha=weight)
    else:
        rows = _as_rows(x)
        total.baddbmm_(rows.mT, rows, alpha=weight)


def quadratic(x: Tensor, P: Tensor) -> Tensor:
    """Return the scalar sum_b sum_t x' P x of vectors x (b, t, r, i) and symmetric P (r, i, i)."""
    columns = _are_columns(x)
    value: Tensor = _Quadratic.apply(_as_columns(x) if columns else _as_rows(x), P, columns)  # type: ignore[no-untyped-call]
    return value


def bilinear(x: Tensor, P: Tensor) -> Tensor:
    """Return sum_t x_k' P x_l, shape (b, k, k), of vectors x (b, k, t, r, i) and symmetric P (r, i, i)."""
    product = torch.einsum("bktri,rij->bktrj", x, P)
    return product.flatten(2) @ x.flatten(2).mT


def _grouped(matrix: Tensor) -> Tensor:
    """Return matrices (r, i, i); a single one (i, i) is one group."""
    return matrix if matrix.dim() == 3 else matrix.unsqueeze(0)


def _are_columns(x: Tensor) -> bool:
    """Return whether vectors lie in memory as columns, and are not so long and few that rows are faster."""
    return x.shape[3] <= _LONG * x.shape[1] and not x.is_contiguous() and _as_columns(x).is_contiguous()


def _as_columns(x: Tensor) -> Tensor:
    """Permute (b, t, r, i) to (b, r, i, t)."""
    return x.permute(0, 2, 3, 1)


def _as_rows(x: Tensor) -> Tensor:
    """Rearrange (b, t, r, i) to (r, b t, i)."""
    return x.permute(2, 0, 1, 3).flatten(1, 2)


class _Quadratic(torch.autograd.Function):
    """sum x' P x, whose gradient 2 P x reuses the product P x of the value."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, P: Tensor, columns: bool) -> Tensor:
        product = P @ x if columns else x @ P
        ctx.save_for_backward(product)
        return (product * x).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (product,) = ctx.saved_tensors
        return product * (2 * gradient), None, None
