"""Full curvature of a small invariant network: H = sum_n J_hat' Lambda_hat J_hat (Section 4.1, eq. 12)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila._util.memory import available_bytes, readable_bytes
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.layers import Layer
from lila.curvature.moments import Contribution, Outer
from lila.curvature.roots import Columns
from lila.curvature.structure import Structure, as_blocks, jacobian
from lila.errors import MemoryBudgetError, NumericalError

_MATRICES_HELD = 7  # at most, counted during the gradient: sum, Cholesky factor, cotangent, and temporary ones
_SHARE = 0.8  # of the free memory; the rest is for the network's graph


@dataclass(frozen=True)
class Full(Structure):
    """The whole matrix over all weights of all layers.

    Attributes:
        layers: the layers, whose blocks (r, o, d), flattened one after the other, index the matrix.
        matrix: shape (P, P).
    """

    samples: ClassVar[Samples] = Samples.POSITIONS
    layers: tuple[Layer, ...]
    matrix: Tensor

    @classmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        weights = sum(layer.size for layer in layers)
        needed, available = _MATRICES_HELD * weights**2 * like.element_size(), available_bytes(like.device)
        if needed > _SHARE * available:
            raise MemoryBudgetError(
                f"The full curvature of {weights:,} weights needs about {readable_bytes(needed)}, but only "
                f"{readable_bytes(available)} are free. Use structure='kron' (or 'diag'), or freeze some layers."
            )
        return cls(tuple(layers), like.new_zeros(weights, weights))

    @classmethod
    def contributions(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """H = sum_n sum_k j j', where j = J_hat' u_k is over the weights of all layers."""
        inputs = tape.inputs()
        rows = []
        for column in columns.u.unbind(1):
            blocks = [jacobian(g, a).flatten(1) for g, a in zip(tape.pull(column), inputs, strict=True)]
            rows.append(torch.cat(blocks, dim=1))  # (b, P)
        yield Contribution(0, Outer(torch.stack(rows, dim=1).unsqueeze(2)))  # (b, k, 1, P)

    def factors(self) -> Mapping[str, Tensor]:
        return {"full curvature": self.matrix}

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        (matrix,) = tensors
        return type(self)(self.layers, matrix)

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """log|C C'| = 2 sum log diag(C), with C the Cholesky factor of H + diag(delta)."""
        return 2 * self._cholesky(precisions).diagonal().log().sum(dtype=torch.float64)

    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        """The gradient of log|H + diag(delta)| by H is its inverse."""
        with torch.no_grad():
            return type(self)(self.layers, torch.cholesky_inverse(self._cholesky(precisions)))

    def cotangent_slope(self, along: Self, precisions: Mapping[str, Tensor]) -> Self:
        """The derivative of the inverse C^-1 along D is -C^-1 D C^-1."""
        inverse = self.cotangent(precisions).matrix
        return type(self)(self.layers, -inverse @ along.matrix @ inverse)

    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        J = torch.cat([row.flatten(1) for row in rows], dim=1)
        # With H + diag(delta) = C C', a root of the inverse is C'^-1, and J C'^-1 solves X C' = J.
        return torch.linalg.solve_triangular(self._cholesky(precisions).mT, J, upper=True, left=False)

    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        # C'^-1 z for each row z is z C^-1: it solves X C = z.
        solved = torch.linalg.solve_triangular(self._cholesky(precisions), z, upper=False, left=False)
        return as_blocks(solved, self.layers)

    def _cholesky(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Return C with C C' = H + diag(delta)."""
        delta = torch.cat([layer.join(precisions).flatten() for layer in self.layers])
        factor, failed = torch.linalg.cholesky_ex(self.matrix + torch.diag(delta))
        if failed:
            raise NumericalError(
                "The full curvature plus the prior precision is not positive definite to rounding: the smallest prior "
                f"precision, {float(delta.detach().min()):.3g}, is lost beside curvatures of up to "
                f"{float(self.matrix.detach().diagonal().max()):.3g}. Use float64, or a larger precision."
            )
        return factor
