"""Eigendecomposition of factors, which are often of low rank, and on which a solver sometimes fails."""

import torch
import torch.nn.functional as F
from torch import Tensor

Eigen = tuple[Tensor, Tensor]
"""Eigenvalues (r, i) and eigenvectors (r, i, i)."""

_SMALL = 256  # side of a matrix that is always decomposed in float64


def eigh(matrix: Tensor) -> Eigen:
    """Return the eigenvalues, none below 0, and the eigenvectors of positive semi-definite matrices (r, i, i).

    A sum of outer products has no negative eigenvalue; those that rounding makes are set to 0. Inputs that are always
    zero, such as units that never fire, leave rows of zeros. Their unit vectors are eigenvectors already. The rest is
    decomposed without them, which is faster and avoids the matrices on which solvers fail most often.

    Small matrices are always decomposed in float64, where it costs next to nothing: in float32, an eigenvalue that is
    zero, as the output Hessian of a softmax has one, comes out as 1e-7 of the largest.
    """
    symmetric = (matrix + matrix.mT).div_(2)
    alive, index = _alive_first(matrix)
    if alive == len(index):
        return _decomposed(symmetric)
    inner_values, inner_vectors = _decomposed(symmetric[:, index[:alive, None], index[:alive]])
    values = F.pad(inner_values, (0, len(index) - alive))
    vectors = torch.zeros_like(matrix)
    vectors[:, index[alive:], torch.arange(alive, len(index), device=matrix.device)] = 1.0
    vectors[:, index[:alive], :alive] = inner_vectors
    return values, vectors


def with_eigenvalues(c: Tensor, vectors: Tensor, matrix: Tensor) -> Tensor:
    """Return V diag(c) V', shape (r, i, i), where V are the eigenvectors that `eigh` found of a matrix.

    Where the matrix has rows of zeros, the eigenvectors are unit vectors, and nothing is multiplied.

    Args:
        c: the eigenvalues, (r, i).
        vectors: V, (r, i, i).
        matrix: the matrix that was decomposed; only its rows of zeros count.
    """
    alive, index = _alive_first(matrix)
    if alive == len(index):
        return (vectors * c[:, None, :]) @ vectors.mT
    inner = vectors[:, index[:alive], :alive]
    result = torch.diag_embed(torch.empty_like(c).index_copy_(1, index, c))
    result[:, index[:alive, None], index[:alive]] = (inner * c[:, None, :alive]) @ inner.mT
    return result


def _alive_first(matrix: Tensor) -> tuple[int, Tensor]:
    """Return the number of rows that are not zero in all matrices (r, i, i), and the index that puts these first."""
    entries = matrix.ne(0).any(0)  # (i, i)
    alive = entries.any(0) | entries.any(1)
    return int(alive.sum()), torch.cat([torch.nonzero(alive)[:, 0], torch.nonzero(~alive)[:, 0]])


def _decomposed(symmetric: Tensor) -> Eigen:
    """Decompose symmetric matrices by the first attempt that converges.

    The attempts are: as they are and in float64, the latter first if they are small; then in float64 after adding a
    multiple of the identity that rounding hides. Some libraries do not report a failure but return NaN.
    """
    error: Exception | None = None
    small = symmetric.shape[-1] <= _SMALL and symmetric.device.type != "mps"  # which has no float64
    for attempt in (_in_double, _as_it_is, _shifted) if small else (_as_it_is, _in_double, _shifted):
        try:
            values, vectors = attempt(symmetric)
        except torch.linalg.LinAlgError as failed:  # type: ignore[attr-defined]
            error = failed
            continue
        if bool(values.isfinite().all()) and bool(vectors.isfinite().all()):
            return values.clamp(min=0).to(symmetric.dtype), vectors.to(symmetric.dtype)
    raise error or torch.linalg.LinAlgError("the result is not finite")  # type: ignore[attr-defined]


def _as_it_is(symmetric: Tensor) -> Eigen:
    values, vectors = torch.linalg.eigh(symmetric)
    return values, vectors


def _in_double(symmetric: Tensor) -> Eigen:
    return _as_it_is(symmetric.double())


def _shifted(symmetric: Tensor) -> Eigen:
    wide = symmetric.double()
    shift = wide.diagonal(dim1=1, dim2=2).sum(1)[:, None] * torch.finfo(torch.float64).eps
    values, vectors = _as_it_is(wide + torch.diag_embed(shift.expand(wide.shape[:2])))
    return values - shift, vectors
