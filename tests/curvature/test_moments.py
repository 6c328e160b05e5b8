"""Second moments and quadratic forms of vectors that lie in memory as rows, as columns, and as long and few columns."""

import pytest
import torch
from torch import Tensor

from lila.curvature.moments import Outer


def rows(x: Tensor) -> Tensor:
    return x


def columns(x: Tensor) -> Tensor:
    """The same numbers (b, t, r, i), but each vector is a column, as unfolding leaves them."""
    return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


@pytest.mark.parametrize("lie", [rows, columns])
@pytest.mark.parametrize(("positions", "entries"), [(6, 5), (1, 9), (2, 8)])
def test_moments_are_those_of_the_equation(lie: object, positions: int, entries: int) -> None:
    assert callable(lie)
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(3, positions, 2, entries, dtype=torch.float64, generator=generator)
    P = torch.randn(2, entries, entries, dtype=torch.float64, generator=generator)
    P = P + P.mT
    x = lie(plain).requires_grad_()
    moment = torch.einsum("btri,btrj->rij", plain, plain)
    total = torch.ones_like(P)
    Outer(x.detach(), weight=0.5).add_to_(total)
    torch.testing.assert_close(total, 1 + 0.5 * moment)
    inner = Outer(x, weight=0.5).inner(P)
    torch.testing.assert_close(inner, 0.5 * (P * moment).sum())
    (gradient,) = torch.autograd.grad(inner, x)
    torch.testing.assert_close(gradient, torch.einsum("rij,btrj->btri", P, plain))
