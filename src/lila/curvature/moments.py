"""Second moments of the rows that make up a factor, and their inner product with a cotangent.

Indices: r groups, n rows (examples, positions and columns), i entries of a row.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def as_rows(x: Tensor) -> Tensor:
    """Positions as rows: (b, t, r, i) to (r, b t, i)."""
    return x.permute(2, 0, 1, 3).flatten(1, 2)


def second_moment(rows: Tensor) -> Tensor:
    """sum_n x_n x_n' of rows (r, n, i): shape (r, i, i)."""
    return rows.mT @ rows


def quadratic(rows: Tensor, P: Tensor) -> Tensor:
    """sum_n x_n' P x_n of rows x (r, n, i) and symmetric P (r, i, i), a scalar."""
    value: Tensor = _Quadratic.apply(rows, P)  # type: ignore[no-untyped-call]
    return value


class _Quadratic(torch.autograd.Function):
    """The gradient in x is 2 P x_n, and P x_n is known from the value."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, P: Tensor) -> Tensor:
        product = rows @ P
        ctx.save_for_backward(product)
        return (product * rows).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (product,) = ctx.saved_tensors
        return 2 * gradient * product, None
