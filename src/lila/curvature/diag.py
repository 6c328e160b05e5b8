"""Diagonal curvature of an invariant network: h = sum_n sum_k (J_hat' u_k)^2, J_hat being averaged over samples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.layers import Layer
from lila.curvature.moments import Contribution, Value
from lila.curvature.roots import Columns
from lila.curvature.structure import Structure, as_blocks, jacobian


@dataclass(frozen=True)
class Diag(Structure):
    """The diagonal of the curvature.

    Attributes:
        layers: the layers.
        blocks: per layer, the diagonal in the shape (r, o, d) of its block.
    """

    samples: ClassVar[Samples] = Samples.POSITIONS
    layers: tuple[Layer, ...]
    blocks: tuple[Tensor, ...]

    @classmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        return cls(tuple(layers), tuple(like.new_zeros(layer.shape) for layer in layers))

    @classmethod
    def contributions(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """H = sum_n sum_k (J_hat' u_k)^2."""
        inputs = tape.inputs()
        for column in columns.u.unbind(1):
            for position, (g, a) in enumerate(zip(tape.pull(column), inputs, strict=True)):
                yield Contribution(position, Value(jacobian(g, a).square().sum(0)))

    def factors(self) -> Mapping[str, Tensor]:
        return {
            f"diagonal of layer {layer.name!r}": block for layer, block in zip(self.layers, self.blocks, strict=True)
        }

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        return type(self)(self.layers, tuple(tensors))

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """log|H + diag(delta)| = sum log(h + delta)."""
        return torch.stack([block.double().log().sum() for block in self._with_prior(precisions)]).sum()

    def log_det_ratio(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """log|I + diag(delta)^-1 H| = sum log(1 + h / delta)."""
        pairs = zip(self.layers, self.blocks, strict=True)
        return torch.stack([(h.double() / layer.join(precisions).double()).log1p().sum() for layer, h in pairs]).sum()

    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        """The gradient of log(h + delta) by h is 1 / (h + delta)."""
        with torch.no_grad():
            return type(self)(self.layers, tuple(block.reciprocal() for block in self._with_prior(precisions)))

    def cotangent_slope(self, along: Self, precisions: Mapping[str, Tensor]) -> Self:
        """The derivative of 1 / (h + delta) is -1 / (h + delta)^2."""
        with torch.no_grad():
            pairs = zip(along.blocks, self._with_prior(precisions), strict=True)
            return type(self)(self.layers, tuple(-change / block.square() for change, block in pairs))

    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        scaled = [J * block.rsqrt() for J, block in zip(rows, self._with_prior(precisions), strict=True)]
        return torch.cat([J.flatten(1) for J in scaled], dim=1)

    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        blocks = as_blocks(z, self.layers)
        return tuple(part * block.rsqrt() for part, block in zip(blocks, self._with_prior(precisions), strict=True))

    def _with_prior(self, precisions: Mapping[str, Tensor]) -> list[Tensor]:
        """Return h + delta per layer."""
        return [block + layer.join(precisions) for layer, block in zip(self.layers, self.blocks, strict=True)]
