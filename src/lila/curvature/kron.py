"""Kronecker-factored curvature of an invariant network (Section 4.2, eq. 15; its gradient as in Appendix E).

Per layer and group r, with a and g averaged over samples,

    H = 1/M A kron G,    A = sum_n sum_t a a',    G = sum_n sum_t sum_k g_k g_k',

where M = N T counts the positions, and g_k = J' u_k is the k-th column u_k pulled back to the layer's output. Layers
with few weights per group instead sum over positions in the Jacobian j = sum_t g a', which is exact: then A = M = N and
G = sum_n sum_k j_k j_k', as if they had one position, one input and o d outputs.

`lila.curvature.kron_block` has the algebra of a layer's two factors. This module has the sum over the layers and what a
batch adds to each factor. Two speed-ups meet here, each from a module of its own: the head's G is known without pulling
anything back (`linear_head`), and several columns are multiplied at a time (`column_chunks`). A third takes the place
of `inner_with_batch` where the Jacobian is constant (`constant_jacobian`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila._util.memory import available_bytes, readable_bytes
from lila._util.ranks import Ranks
from lila.curvature.autograd.column_chunks import columns_at_once, joined
from lila.curvature.autograd.constant_jacobian import inner_by_rows
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.kron_block import KronBlock
from lila.curvature.layers import Layer
from lila.curvature.moments import Contribution, Outer, Value
from lila.curvature.roots import Columns
from lila.curvature.rules import Sharing
from lila.curvature.shared_decomposition import decompose_together
from lila.curvature.structure import Structure, as_blocks, jacobian, sum_of_inners
from lila.errors import ArgumentError, MemoryBudgetError
from lila.model.prior import PriorStructure

_EIGEN_OPERATIONS = 20  # of an eigendecomposition, per cube of the side
_COPIES = 8  # of the factors: own sum, sum of all processes, eigenvectors, cotangent, checkpoint, while decomposing
_A, _G, _M, _PER_LAYER = range(4)  # position of each tensor among those of a layer, and their number


@dataclass(frozen=True)
class Kron(Structure):
    """One Kronecker-factored block per layer; weight and bias of a layer share it.

    Attributes:
        blocks: the factors, layer by layer.
    """

    samples: ClassVar[Samples] = Samples.AVERAGED
    blocks: tuple[KronBlock, ...]
    layers: tuple[Layer, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(block.layer for block in self.blocks))

    @classmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
        _check_memory(layers, like)
        blocks = []
        for layer in layers:
            groups, outputs, inputs = _factor_sizes(layer)
            A, G = like.new_zeros(groups, inputs, inputs), like.new_zeros(groups, outputs, outputs)
            blocks.append(KronBlock(layer, A, G, like.new_zeros((), dtype=torch.float64)))
        return cls(tuple(blocks))

    @classmethod
    def contributions(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """Return the summands of A = sum_n sum_t a a', M = N T and G = sum_n sum_t sum_k g_k g_k'."""
        yield from cls._of_inputs(tape)
        yield from cls._of_head(tape, columns)
        body, inputs = _body(tape), tape.inputs()
        if body:
            of_columns = (cls._of_column(tape, inputs, tape.pull(u, body)) for u in columns.u.unbind(1))
            yield from joined(of_columns, columns_at_once(tape))

    @classmethod
    def _of_inputs(cls, tape: Tape) -> Iterator[Contribution]:
        """Return the summands of A = sum_n sum_t a a' and M = N T of each layer."""
        for position, a in enumerate(tape.inputs()):
            yield Contribution(_PER_LAYER * position + _M, Value(_count_positions(tape, position)))
            for moment in cls._input_moments(tape, position, a):
                yield Contribution(_PER_LAYER * position + _A, moment)

    @classmethod
    def _of_head(cls, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """G = sum_n sum_k u_k u_k' of the head, if there is one: its gradients are the columns themselves."""
        if tape.head is not None:
            yield Contribution(_PER_LAYER * tape.head + _G, Value(columns.moment()))

    @classmethod
    def _of_column(cls, tape: Tape, inputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Contribution]:
        """Return sum_n sum_t g g' of one column, for each layer but the head, whose gradients are not given."""
        return [
            Contribution(_PER_LAYER * position + _G, moment)
            for position, g in zip(_body(tape), gradients, strict=True)
            for moment in cls._output_moments(tape, position, inputs[position], g)
        ]

    @classmethod
    def _input_moments(cls, tape: Tape, position: int, a: Tensor) -> Sequence[Outer]:
        """Return sum_n sum_t a a' of a layer's inputs a (b, t, r, d); or N, if G holds sums over positions."""
        layer = tape.layers[position]
        return [Outer(a.new_ones(len(a), 1, layer.shape[0], 1) if is_reduced(layer) else a)]

    @classmethod
    def _output_moments(cls, tape: Tape, position: int, a: Tensor, g: Tensor) -> Sequence[Outer]:
        """Return sum_n sum_t g g' of a column's gradients g (b, t, r, o), or sum_n j j' of its Jacobian j."""
        return [Outer(jacobian(g, a).flatten(2).unsqueeze(1) if is_reduced(tape.layers[position]) else g)]

    def inner_with_batch(self, tape: Tape, columns: Columns) -> Tensor:
        if not _rows_are_cheaper(tape, columns):
            return super().inner_with_batch(tape, columns)
        cotangents, inputs, body = self.tensors(), tape.inputs(), _body(tape)

        def of_direction(direction: Tensor) -> list[Contribution]:
            rows = tape.gradients(direction.expand_as(tape.outputs), body, create_graph=False)
            return self._of_column(tape, inputs, rows)

        at_hand = sum_of_inners(chain(self._of_inputs(tape), self._of_head(tape, columns)), cotangents)
        return sum((part.double() for part in inner_by_rows(cotangents, columns, of_direction)), start=at_hand)

    def factors(self) -> Mapping[str, Tensor]:
        named = {}
        for block in self.blocks:
            named[f"input factor A of layer {block.layer.name!r}"] = block.A
            named[f"output factor G of layer {block.layer.name!r}"] = block.G
        return named

    def tensors(self) -> list[Tensor]:
        return [tensor for block in self.blocks for tensor in (block.A, block.G, block.positions)]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        of_layers = zip(tensors[_A::_PER_LAYER], tensors[_G::_PER_LAYER], tensors[_M::_PER_LAYER], strict=True)
        return type(self)(tuple(KronBlock(layer, *own) for layer, own in zip(self.layers, of_layers, strict=True)))

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Return the sum over layers and eigenvalues of log(lambda_i mu_j + delta) (Appendix E)."""
        return torch.stack([block.log_det(precisions) for block in self.blocks]).sum()

    def log_det_ratio(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Return the sum over layers and eigenvalues of log(1 + lambda_i mu_j / delta)."""
        return torch.stack([block.log_det_ratio(precisions) for block in self.blocks]).sum()

    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        with torch.no_grad():
            return type(self)(tuple(block.cotangent(precisions) for block in self.blocks))

    def cotangent_slope(self, along: Self, precisions: Mapping[str, Tensor]) -> Self:
        pairs = zip(self.blocks, along.blocks, strict=True)
        with torch.no_grad():
            return type(self)(tuple(block.cotangent_slope(direction, precisions) for block, direction in pairs))

    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        rooted = []
        for block, J in zip(self.blocks, rows, strict=True):
            V, U, scale = block.posterior_root(precisions)
            rotated = U.mT @ block.as_matrices(J) @ V  # (n, r, j, i)
            rooted.append((rotated * scale).flatten(1))
        return torch.cat(rooted, dim=1)

    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        drawn = []
        for block, part in zip(self.blocks, as_blocks(z, self.layers), strict=True):
            V, U, scale = block.posterior_root(precisions)
            drawn.append((U @ (block.as_matrices(part) * scale) @ V.mT).reshape(part.shape))
        return tuple(drawn)

    @classmethod
    def check_prior(cls, prior: PriorStructure) -> None:
        if prior is PriorStructure.DIAGONAL:
            raise ArgumentError(
                "A prior precision per weight does not keep the Kronecker structure: log|A kron G + D| has no closed "
                "form for a general diagonal D. Use GaussianPrior(net, structure='layerwise'), or structure='diag'."
            )

    def decomposition_cost(self, examples: int) -> float:
        """A decomposition takes about 20 n^3 operations, a forward pass two for each weight and position."""
        sides = [(factor.shape[0], factor.shape[-1]) for block in self.blocks for factor in (block.A, block.G)]
        forward = sum(2 * block.layer.size * float(block.positions) / examples for block in self.blocks)
        return _EIGEN_OPERATIONS * sum(groups * side**3 for groups, side in sides) / max(forward, 1.0)

    def decomposed(self, ranks: Ranks) -> Self:
        """Return the same factors with their eigenvalues and eigenvectors, each computed by one process."""
        if ranks.count == 1:
            return self  # the factors are decomposed when somebody asks for it
        factors = [factor for block in self.blocks for factor in block.normalised]
        eigen = decompose_together(factors, [block.decompose for block in self.blocks for _ in range(2)], ranks)
        pairs = zip(eigen[::2], eigen[1::2], strict=True)
        return type(self)(tuple(replace(b, known=pair) for b, pair in zip(self.blocks, pairs, strict=True)))


def is_reduced(layer: Layer) -> bool:
    """Return whether the sum over positions is done in the Jacobian."""
    return layer.rule.sharing is Sharing.REDUCE


def _factor_sizes(layer: Layer) -> tuple[int, int, int]:
    """Return the number of groups, and the sides of G and A."""
    groups, outputs, inputs = layer.shape
    return (groups, outputs * inputs, 1) if is_reduced(layer) else (groups, outputs, inputs)


def _count_positions(tape: Tape, position: int) -> int:
    """Return the positions that a batch adds to M of a layer; samples that the tape keeps as positions do not count."""
    batch = len(tape.outputs)
    if is_reduced(tape.layers[position]):
        return batch
    samples = tape.views // batch if tape.samples is Samples.POSITIONS else 1
    return batch * (sum(a.shape[1] for a in tape.uses[position]) // samples)


def _body(tape: Tape) -> list[int]:
    """Return the positions of all layers but the head: those to which columns must be pulled back."""
    return [position for position in range(len(tape.layers)) if position != tape.head]


def _rows_are_cheaper(tape: Tape, columns: Columns) -> bool:
    """Return whether J is constant and has so few rows that computing them costs less than pulling the columns."""
    count, outputs = columns.u.shape[1:]
    return tape.constant_jacobian and outputs <= 2 * min(count, columns_at_once(tape))


def _check_memory(layers: Sequence[Layer], like: Tensor) -> None:
    """Raise MemoryBudgetError if the factors would not fit into memory."""
    shapes = {layer.name: _factor_sizes(layer) for layer in layers}
    entries = {name: groups * (inputs**2 + outputs**2) for name, (groups, outputs, inputs) in shapes.items()}
    needed, available = _COPIES * sum(entries.values()) * like.element_size(), available_bytes(like.device)
    if needed > available:
        largest = max(entries, key=lambda name: entries[name])
        raise MemoryBudgetError(
            f"The Kronecker factors need about {readable_bytes(needed)}, most of it for layer {largest!r} with "
            f"{shapes[largest][2]:,} inputs and {shapes[largest][1]:,} outputs, but only "
            f"{readable_bytes(available)} are free. Use smaller images, a network that pools before its linear "
            "layers, or structure='diag'."
        )
