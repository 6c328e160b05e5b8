"""Kronecker-factored curvature of an invariant network (eq. kfac_aug and kfac_general; gradient as in jvp.tex).

Per layer and group r, with a and g averaged over samples,

    H = 1/M A kron G,    A = sum_n sum_t a a',    G = sum_n sum_t sum_k g_k g_k',

where M = N T counts the positions. Layers with few weights per group instead sum over positions in the Jacobian j,
which is exact: then A = N and G = sum_n sum_k j_k j_k', as if they had one position, one input and o d outputs.

`lila.curvature.kron_block` has the algebra of a layer's two factors; here is what a batch adds to them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from lila._util.memory import available_bytes, readable_bytes
from lila._util.ranks import Ranks
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.kron_block import Eigen, Factor, KronBlock
from lila.curvature.layers import Layer
from lila.curvature.moments import Known, Outer, bilinear
from lila.curvature.roots import Columns
from lila.curvature.rules import Sharing
from lila.curvature.structure import Structure, as_blocks, jacobian
from lila.errors import MemoryBudgetError

_EIGEN_OPERATIONS = 20  # by the cube of the side, in operations of a product of matrices that take as long
_COPIES = 8  # of the factors: sums, those of all examples, eigenvectors, cotangent, for a checkpoint, while decomposing


@dataclass(frozen=True)
class Contribution:
    """What a batch adds to one of the factors.

    Attributes:
        position: of the layer.
        factor: A or G.
        moment: the sum of outer products that is added.
    """

    position: int
    factor: Factor
    moment: Outer | Known

    def add_to_(self, total: "Kron") -> None:
        """Add it to the factor, in place."""
        self.moment.add_to_(total.blocks[self.position].of(self.factor))

    def along(self, cotangent: "Kron") -> Tensor:
        """Its inner product with the cotangent of the factor, differentiable."""
        return self.moment.along(cotangent.blocks[self.position].of(self.factor))


@dataclass(frozen=True)
class Kron(Structure):
    """One Kronecker-factored block per layer; weight and bias of a layer share it.

    Attributes:
        blocks: the factors, layer by layer.
    """

    samples: ClassVar[Samples] = Samples.AVERAGED
    blocks: tuple[KronBlock, ...]

    @classmethod
    def zeros(cls, layers: Sequence[Layer], like: Tensor) -> Self:
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
        blocks = []
        for layer in layers:
            groups, outputs, inputs = shapes[layer.name]
            A, G = like.new_zeros(groups, inputs, inputs), like.new_zeros(groups, outputs, outputs)
            blocks.append(KronBlock(layer, A, G, like.new_zeros((), dtype=torch.float64)))
        return cls(tuple(blocks))

    def plus_(self, tape: Tape, columns: Columns) -> Self:
        self._count_(tape)
        for contribution in self._contributions(tape, columns):
            contribution.add_to_(self)
        return type(self)(tuple(replace(block, known=None) for block in self.blocks))

    def along(self, tape: Tape, columns: Columns) -> Tensor:
        """By quadratic forms, <P, sum x x'> = sum x' P x, whose gradient 2 P x comes with the value."""
        if not _rows_are_cheaper(tape, columns):
            return torch.stack([part.along(self) for part in self._contributions(tape, columns)]).sum()
        at_hand = [*self._of_inputs(tape), *_of_head(tape, columns)]
        return torch.stack([*(part.along(self) for part in at_hand), *self._along_rows(tape, columns)]).sum()

    def along_and_add_(self, tape: Tape, columns: Columns, total: Self) -> Tensor:
        """Each vector is pulled back once, for its quadratic form and for its second moment."""
        total._count_(tape)
        products = []
        for contribution in self._contributions(tape, columns):
            with torch.no_grad():
                contribution.add_to_(total)
            products.append(contribution.along(self))
        return torch.stack(products).sum()

    @classmethod
    def _input_moment(cls, tape: Tape, position: int, a: Tensor) -> Sequence[Outer]:
        """What the inputs a (b, t, r, d) of the layer at a position add to A; a 1 per example where G does the rest."""
        layer = tape.layers[position]
        return [Outer(a.new_ones(len(a), 1, layer.shape[0], 1) if is_reduced(layer) else a)]

    @classmethod
    def _output_moment(cls, tape: Tape, position: int, a: Tensor, g: Tensor) -> Sequence[Outer]:
        """What a column's g (b, t, r, o) add to G; the Jacobian does if it is summed over positions."""
        return [Outer(jacobian(g, a).flatten(2).unsqueeze(1) if is_reduced(tape.layers[position]) else g)]

    def _count_(self, tape: Tape) -> None:
        """Add the positions of a batch to M, in place. Samples that the tape keeps as positions are not counted."""
        batch = len(tape.outputs)
        samples = tape.views // batch if tape.samples is Samples.POSITIONS else 1
        for block, uses in zip(self.blocks, tape.uses, strict=True):
            positions = 1 if is_reduced(block.layer) else sum(a.shape[1] for a in uses) // samples
            block.positions.add_(batch * positions)

    def _contributions(self, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """What a batch adds to the factors of all layers, part by part."""
        yield from self._of_inputs(tape)
        yield from _of_head(tape, columns)
        yield from self._of_columns(tape, columns)

    def _of_inputs(self, tape: Tape) -> Iterator[Contribution]:
        """sum_t a a', for A of each layer."""
        for position, a in enumerate(tape.inputs()):
            for outer in self._input_moment(tape, position, a):
                yield Contribution(position, Factor.A, outer)

    def _of_columns(self, tape: Tape, columns: Columns) -> Iterator[Contribution]:
        """sum_t sum_k g_k g_k', for G of each layer but the head.

        A few columns are taken at a time: one large product is faster than many small ones.
        """
        inputs, body = tape.inputs(), tape.body()
        if not body.layers:
            return
        for chunk in columns.u.split(_at_once(tape), dim=1):
            by_column = [list(self._of_column(tape, inputs, body.pull(column))) for column in chunk.unbind(1)]
            for parts in zip(*by_column, strict=True):
                position, outer = parts[0]
                if len(parts) > 1:
                    outer = replace(outer, x=torch.cat([outer.x for _, outer in parts], dim=1))  # (b, k t, r, o)
                yield Contribution(position, Factor.G, outer)

    def _of_column(
        self, tape: Tape, inputs: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> Iterator[tuple[int, Outer]]:
        """sum_t g g' of a single column, with the position of the layer; gradients are those of all but the head."""
        body = [position for position in range(len(tape.layers)) if position != tape.head]
        for position, g in zip(body, gradients, strict=True):
            for outer in self._output_moment(tape, position, inputs[position], g):
                yield position, outer

    def _along_rows(self, tape: Tape, columns: Columns) -> Iterator[Tensor]:
        """The terms of sum_k g_k' P g_k, over all layers but the head, if J is constant.

        With g_k = J' u_k it is <J P J', sum_k u_k u_k'>, and only the second factor depends on the outputs: a row of J
        then costs less than a pull for each column and a push for its gradient.
        """
        inputs, body, D = tape.inputs(), tape.body(), columns.directions()
        rows = [
            list(self._of_column(tape, inputs, body.gradients(d.expand_as(tape.outputs), create_graph=False)))
            for d in D.mT
        ]
        u = columns.u @ D  # (b, k, d)
        hessians = u.mT @ u  # (b, d, d), in the directions
        for parts in zip(*rows, strict=True):
            position, outer = parts[0]
            x = torch.stack([outer.x for _, outer in parts], dim=1)  # (b, d, t, r, o)
            yield outer.weight * (bilinear(x, self.blocks[position].G) * hessians).sum()

    def over(self) -> tuple[Layer, ...]:
        return tuple(block.layer for block in self.blocks)

    def tensors(self) -> list[Tensor]:
        return [tensor for block in self.blocks for tensor in (block.A, block.G, block.positions)]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        factors = zip(tensors[::3], tensors[1::3], tensors[2::3], strict=True)
        return type(self)(
            tuple(KronBlock(block.layer, *of_layer) for block, of_layer in zip(self.blocks, factors, strict=True))
        )

    def decomposition_cost(self, examples: int) -> float:
        """A decomposition takes about 20 n^3 operations, a layer two for each weight and position."""
        sides = [(factor.shape[0], factor.shape[-1]) for block in self.blocks for factor in (block.A, block.G)]
        forward = sum(2 * block.layer.size * float(block.positions) / examples for block in self.blocks)
        return _EIGEN_OPERATIONS * sum(groups * side**3 for groups, side in sides) / max(forward, 1.0)

    def decomposed(self, ranks: Ranks) -> Self:
        """Each factor by one process, the costly ones (side cubed) first to whoever has least to do."""
        if ranks.count == 1:
            return self
        factors = [(block, factor) for block in self.blocks for factor in block.factors]
        owners = _shared_out([factor.shape[0] * factor.shape[1] ** 3 for _, factor in factors], ranks.count)
        eigen: list[Eigen] = []
        with ranks.together(factors[0][1].device):
            for (block, factor), owner in zip(factors, owners, strict=True):
                mine = owner == ranks.rank
                eigen.append(
                    block.decompose(factor) if mine else (torch.empty_like(factor[:, 0]), torch.empty_like(factor))
                )
        for rank in range(ranks.count):
            theirs = [pair for pair, owner in zip(eigen, owners, strict=True) if owner == rank]
            ranks.send_([tensor for pair in theirs for tensor in pair], source=rank)
        pairs = zip(eigen[::2], eigen[1::2], strict=True)
        return type(self)(tuple(replace(b, known=pair) for b, pair in zip(self.blocks, pairs, strict=True)))

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Sum over layers and eigenvalues of log(lambda_i mu_j + delta) (eq. kfac_logdet_eig)."""
        return torch.stack([block.log_det(precisions) for block in self.blocks]).sum()

    def cotangent(self, precisions: Mapping[str, Tensor]) -> Self:
        with torch.no_grad():
            return type(self)(tuple(block.cotangent(precisions) for block in self.blocks))

    def times_root(self, rows: Sequence[Tensor], precisions: Mapping[str, Tensor]) -> Tensor:
        rooted = []
        for block, J in zip(self.blocks, rows, strict=True):
            (_, V), (_, U) = block.eigen
            rotated = U.mT @ block.as_matrices(J) @ V  # (n, r, j, i)
            scale = block.eigenvalues(precisions).rsqrt().mT
            rooted.append((rotated * scale).flatten(1))
        return torch.cat(rooted, dim=1)

    def root_times(self, z: Tensor, precisions: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        drawn = []
        for block, part in zip(self.blocks, as_blocks(z, self.over()), strict=True):
            (_, V), (_, U) = block.eigen
            scale = block.eigenvalues(precisions).rsqrt().mT
            drawn.append((U @ (block.as_matrices(part) * scale) @ V.mT).reshape(part.shape))
        return tuple(drawn)

    def inner(self, other: Self) -> Tensor:
        products = [
            (one.A * two.A).sum() + (one.G * two.G).sum() for one, two in zip(self.blocks, other.blocks, strict=True)
        ]
        return torch.stack(products).sum()

    def parts(self) -> Mapping[str, Tensor]:
        named = {}
        for block in self.blocks:
            named[f"input factor A of layer {block.layer.name!r}"] = block.A
            named[f"output factor G of layer {block.layer.name!r}"] = block.G
        return named


def _factor_sizes(layer: Layer) -> tuple[int, int, int]:
    """Groups, and the sides of G and A."""
    groups, outputs, inputs = layer.shape
    return (groups, outputs * inputs, 1) if is_reduced(layer) else (groups, outputs, inputs)


def _shared_out(costs: Sequence[float], count: int) -> list[int]:
    """Who does what: each piece of work, in order of falling cost, goes to whoever has least to do so far."""
    loads, owners = [0.0] * count, [0] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += costs[i]
    return owners


def is_reduced(layer: Layer) -> bool:
    """Whether the sum over positions is done in the Jacobian."""
    return layer.rule.sharing is Sharing.REDUCE


def _of_head(tape: Tape, columns: Columns) -> Iterator[Contribution]:
    """sum_k g_k g_k' of the head, if there is one: its g are the columns."""
    if tape.head is not None:
        yield Contribution(tape.head, Factor.G, Known(columns.moment()))


def _at_once(tape: Tape) -> int:
    """Columns at a time: as many averaged gradients as there are samples take about the memory of the activations.

    One does, if they are not averaged.
    """
    return max(tape.views // len(tape.outputs), 1) if tape.samples is Samples.AVERAGED else 1


def _rows_are_cheaper(tape: Tape, columns: Columns) -> bool:
    """Whether J is constant, and has few enough rows."""
    count, outputs = columns.u.shape[1:]
    return tape.linear and outputs <= 2 * min(count, _at_once(tape))
