"""Second moments of the vectors x that make up a factor, and their inner product with a cotangent.

Vectors lie in memory as rows, (b, t, r, i), or as columns, (b, r, i, t), which is how unfolding the patches of a
convolution leaves them. Either is multiplied as it lies: a transposed copy would cost more than the product.

Indices: b examples, t positions (and columns of the output Hessian's root), r groups, i entries of a vector.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Outer:
    """The sum w sum_b sum_t x x' of outer products.

    Attributes:
        x: the vectors, shape (b, t, r, i).
        weight: w.
    """

    x: Tensor
    weight: float = 1.0

    def add_to_(self, total: Tensor) -> None:
        """Add it to a total (r, i, i), in place."""
        add_second_moment_(total, self.x, self.weight)

    def along(self, P: Tensor) -> Tensor:
        """Its inner product with a symmetric P (r, i, i), differentiable in x."""
        return self.weight * quadratic(self.x, P)


@dataclass(frozen=True)
class Known:
    """A sum of outer products whose value is known.

    Attributes:
        value: shape (r, i, i), or (i, i) if there is one group.
    """

    value: Tensor

    def add_to_(self, total: Tensor) -> None:
        """Add it to a total (r, i, i), in place."""
        total += self.value

    def along(self, P: Tensor) -> Tensor:
        """Its inner product with a symmetric P (r, i, i), differentiable in the value."""
        return (P * self.value).sum()


def add_second_moment_(total: Tensor, x: Tensor, weight: float = 1.0) -> None:
    """Add w sum_b sum_t x x' of vectors x (b, t, r, i) to a total (r, i, i), in place: it may be larger than all x."""
    if _are_columns(x):
        columns = _as_columns(x)
        total.add_((columns @ columns.mT).sum(0), alpha=weight)
    else:
        rows = _as_rows(x)
        total.baddbmm_(rows.mT, rows, alpha=weight)


def quadratic(x: Tensor, P: Tensor) -> Tensor:
    """sum_b sum_t x' P x of vectors x (b, t, r, i) and symmetric P (r, i, i), a scalar."""
    columns = _are_columns(x)
    value: Tensor = _Quadratic.apply(_as_columns(x) if columns else _as_rows(x), P, columns)  # type: ignore[no-untyped-call]
    return value


def bilinear(x: Tensor, P: Tensor) -> Tensor:
    """sum_t x_k' P x_l of vectors x (b, k, t, r, i) and symmetric P (r, i, i): shape (b, k, k)."""
    product = torch.einsum("bktri,rij->bktrj", x, P)
    return product.flatten(2) @ x.flatten(2).mT


def _are_columns(x: Tensor) -> bool:
    return not x.is_contiguous() and _as_columns(x).is_contiguous()


def _as_columns(x: Tensor) -> Tensor:
    """(b, t, r, i) to (b, r, i, t)."""
    return x.permute(0, 2, 3, 1)


def _as_rows(x: Tensor) -> Tensor:
    """(b, t, r, i) to (r, b t, i)."""
    return x.permute(2, 0, 1, 3).flatten(1, 2)


class _Quadratic(torch.autograd.Function):
    """The gradient in x is 2 P x, and P x is known from the value."""

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
