"""The exponential of an affine Lie algebra of the plane, several times faster than `torch.linalg.matrix_exp`.

    X = [[M, t], [0, 0]],    exp(X) = [[exp(M), phi(M) t], [0, 1]],    phi(M) = int_0^1 exp(u M) du.

Let tau = tr(M) / 2 and N = M - tau I. By the theorem of Cayley and Hamilton, N^2 = q I with q = -det N. So every
function of M has the form alpha I + beta N, and the pairs (alpha, beta) have a product of their own:

    (alpha, beta) (alpha', beta') = (alpha alpha' + q beta beta', alpha beta' + beta alpha').

exp and phi are computed with such pairs by scaling and squaring: a power series at M / 2^k, then k times

    F(2 M) = F(M) (2 + F(M)),    phi(2 M) = phi(M) (1 + F(M) / 2),    F(M) = exp(M) - I,

where F, without the identity, keeps the digits of small numbers that the squarings of exp(M) would lose.
"""

import torch
from torch import Tensor

_HALVINGS = 5
_TERMS = 13

Pair = tuple[Tensor, Tensor]


def affine_exp(X: Tensor) -> Tensor:
    """Return exp(X) for matrices (..., 3, 3) whose last row is zero; exact to rounding for entries up to about 8."""
    a, b, c, d = X[..., 0, 0], X[..., 0, 1], X[..., 1, 0], X[..., 1, 1]
    tau, n = (a + d) / 2, (a - d) / 2
    q = n * n + b * c
    (f_even, f_odd), (phi_even, phi_odd) = _exp_phi(tau, q)
    even = 1 + f_even
    x, y = X[..., 0, 2], X[..., 1, 2]
    shift_x = phi_even * x + phi_odd * (n * x + b * y)
    shift_y = phi_even * y + phi_odd * (c * x - n * y)
    zero, one = torch.zeros_like(tau), torch.ones_like(tau)
    rows = [even + f_odd * n, f_odd * b, shift_x, f_odd * c, even - f_odd * n, shift_y, zero, zero, one]
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def _exp_phi(tau: Tensor, q: Tensor) -> tuple[Pair, Pair]:
    """Return F = exp(M) - I and phi(M) as pairs."""
    scale = 2.0**-_HALVINGS
    even, odd = tau * scale, torch.full_like(tau, scale)  # the pair of M / 2^k
    phi: Pair = torch.ones_like(tau), torch.zeros_like(tau)
    for k in range(_TERMS, 1, -1):  # Horner's scheme: phi = 1 + M/2 (1 + M/3 (1 + ...))
        alpha, beta = _times((even, odd), phi, q)
        phi = 1 + alpha / k, beta / k
    F = _times((even, odd), phi, q)
    for _ in range(_HALVINGS):
        alpha, beta = _times(phi, F, q)
        phi = phi[0] + alpha / 2, phi[1] + beta / 2
        alpha, beta = _times(F, F, q)
        F = 2 * F[0] + alpha, 2 * F[1] + beta
    return F, phi


def _times(one: Pair, two: Pair, q: Tensor) -> Pair:
    return one[0] * two[0] + q * (one[1] * two[1]), one[0] * two[1] + one[1] * two[0]
