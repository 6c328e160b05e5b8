"""Kronecker-factored curvature of an invariant network (eq. kfac_aug and kfac_general; gradient as in jvp.tex).

Per layer and group r, with a and g averaged over samples,

    H = 1/M A kron G,    A = sum_n sum_t a a',    G = sum_n sum_t sum_k g_k g_k',

where M = N T counts the positions. Layers with few weights per group instead sum over positions in the Jacobian j,
which is exact: then A = N and G = sum_n sum_k j_k j_k', as if they had one position, one input and o d outputs.

With eigenvalues lambda of A / M and mu of G, H + delta I has eigenvalues lambda_i mu_j + delta. The gradients of its
log-determinant are

    by A    P_A = V diag(c) V' / M,    c_i = sum_j mu_j / (lambda_i mu_j + delta),
    by G    P_G = U diag(e) U',        e_j = sum_i lambda_i / (lambda_i mu_j + delta).

Indices: r groups, i and j the eigenvalues of the two factors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lila.curvature.eigen import eigh
from lila.curvature.layers import Layer
from lila.curvature.moments import add_second_moment_, bilinear, quadratic
from lila.curvature.roots import Columns
from lila.curvature.rules import Sharing
from lila.curvature.structure import Structure, as_blocks, jacobian
from lila.curvature.tape import Samples, Tape
from lila.errors import MemoryBudgetError, NumericalError
from lila.memory import available_bytes, readable_bytes
from lila.ranks import Ranks

Eigen = tuple[Tensor, Tensor]
"""Eigenvalues (r, d) and eigenvectors (r, d, d)."""

_EIGEN_OPERATIONS = 20  # by the cube of the side, in operations of a product of matrices that take as long
_AT_ONCE = 2**20  # eigenvalues whose logarithms are taken at a time
_COPIES = 6  # of the factors: their sum, a batch's part, eigenvectors, cotangent, and what decomposing takes


@dataclass(frozen=True)
class KronBlock:
    """The factors of one layer.

    Attributes:
        layer: the layer.
        A: sum over positions of a a', shape (r, d, d).
        G: sum over positions and columns of g g', shape (r, o, o).
        positions: M, the number of positions summed over, a scalar in float64.
        known: eigenvalues and eigenvectors of A / M and of G, if somebody has computed them already.
    """

    layer: Layer
    A: Tensor
    G: Tensor
    positions: Tensor
    known: tuple[Eigen, Eigen] | None = None

    @cached_property
    def eigen(self) -> tuple[Eigen, Eigen]:
        """Eigenvalues and eigenvectors of A / M and of G."""
        A, G = self.factors
        return self.known or (self.decompose(A), self.decompose(G))

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """A / M and G, whose Kronecker product is the curvature."""
        return self.A / self.positions.clamp(min=1), self.G

    def decompose(self, factor: Tensor) -> Eigen:
        """Eigenvalues and eigenvectors of a factor."""
        try:
            return eigh(factor)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise NumericalError(
                f"The factors of layer {self.layer.name!r} could not be decomposed, not even in float64: {error} Lower "
                "the learning rate, or compute in float64."
            ) from error

    def eigenvalues(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Eigenvalues lambda_i mu_j + delta of H + delta I, shape (r, i, j); a layer has a single precision delta."""
        (lam, _), (mu, _) = self.eigen
        return lam[:, :, None] * mu[:, None, :] + precisions[self.layer.parameter_names[0]]

    def log_det(self, precisions: Mapping[str, Tensor]) -> Tensor:
        """Sum of the logarithms of `eigenvalues`, in float64 whatever the type of the factors."""
        (lam, _), (mu, _) = self.eigen
        value: Tensor = _LogDet.apply(lam, mu, precisions[self.layer.parameter_names[0]])  # type: ignore[no-untyped-call]
        return value

    def as_matrices(self, rows: Tensor) -> Tensor:
        """Rows (n, r, o, d) over the layer's weights as matrices whose rows G acts on and whose columns A acts on."""
        return rows.reshape(*rows.shape[:2], self.G.shape[-1], self.A.shape[-1])

    def cotangent(self, precisions: Mapping[str, Tensor]) -> "KronBlock":
        """P_A and P_G."""
        (lam, V), (mu, U) = self.eigen
        inverse = self.eigenvalues(precisions).reciprocal()  # (r, i, j)
        c = torch.einsum("rj,rij->ri", mu, inverse)
        e = torch.einsum("ri,rij->rj", lam, inverse)
        P_A = (V * c[:, None, :]) @ V.mT / self.positions.clamp(min=1)
        P_G = (U * e[:, None, :]) @ U.mT
        return KronBlock(self.layer, P_A, P_G, torch.zeros_like(self.positions))


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
        inputs = tape.inputs()
        for block, a in zip(self.blocks, _factor_inputs(tape, inputs), strict=True):
            add_second_moment_(block.A, a)
            block.positions.add_(a.shape[0] * a.shape[1])
        G = [block.G for block in self.blocks]
        if tape.head is not None:  # its g are the columns
            G.pop(tape.head).add_(columns.moment())
        for chunk in _gradients(tape.body(), columns):
            for G_layer, g in zip(G, chunk, strict=True):
                add_second_moment_(G_layer, g)
        return type(self)(tuple(replace(block, known=None) for block in self.blocks))

    def along(self, tape: Tape, columns: Columns) -> Tensor:
        """By quadratic forms, <P, sum x x'> = sum x' P x, whose gradient 2 P x comes with the value."""
        vectors = _factor_inputs(tape, tape.inputs())
        products = [quadratic(a, block.A) for block, a in zip(self.blocks, vectors, strict=True)]
        P = [block.G for block in self.blocks]
        if tape.head is not None:
            products.append((P.pop(tape.head)[0] * columns.moment()).sum())
        return torch.stack([*products, *_products(tape.body(), columns, P)]).sum()

    def along_and_add_(self, tape: Tape, columns: Columns, total: Self) -> Tensor:
        """Each vector is pulled back once, for its quadratic form and for its second moment."""
        products = []
        for mine, sum_, a in zip(self.blocks, total.blocks, _factor_inputs(tape, tape.inputs()), strict=True):
            add_second_moment_(sum_.A, a.detach())
            sum_.positions.add_(a.shape[0] * a.shape[1])
            products.append(quadratic(a, mine.A))
        P, G = [block.G for block in self.blocks], [block.G for block in total.blocks]
        if tape.head is not None:
            moment = columns.moment()
            G.pop(tape.head).add_(moment.detach())
            products.append((P.pop(tape.head)[0] * moment).sum())
        for chunk in _gradients(tape.body(), columns):
            for P_layer, G_layer, g in zip(P, G, chunk, strict=True):
                add_second_moment_(G_layer, g.detach())
                products.append(quadratic(g, P_layer))
        return torch.stack(products).sum()

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


class _LogDet(torch.autograd.Function):
    """sum_ij log(lambda_i mu_j + delta) and its derivative in delta, sum_ij 1 / (lambda_i mu_j + delta).

    Both are summed in float64 over a few i at a time: there are as many terms as weights, and the number of weights
    that the data determine is a small difference of large sums.
    """

    @staticmethod
    def forward(ctx: Any, lam: Tensor, mu: Tensor, delta: Tensor) -> Tensor:
        value, slope = (torch.zeros((), dtype=torch.float64, device=lam.device) for _ in range(2))
        for few in lam.double().split(max(_AT_ONCE // max(mu.numel(), 1), 1), dim=1):
            eigenvalues = few[:, :, None] * mu.double()[:, None, :] + delta.double()
            value += eigenvalues.log().sum()
            slope += eigenvalues.reciprocal_().sum()
        ctx.slope, ctx.dtype = slope, delta.dtype
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, (gradient * ctx.slope).to(ctx.dtype)


def _factor_sizes(layer: Layer) -> tuple[int, int, int]:
    """Groups, and the sides of G and A."""
    groups, outputs, inputs = layer.shape
    return (groups, outputs * inputs, 1) if layer.rule.sharing is Sharing.REDUCE else (groups, outputs, inputs)


def _shared_out(costs: Sequence[float], count: int) -> list[int]:
    """Who does what: each piece of work, in order of falling cost, goes to whoever has least to do so far."""
    loads, owners = [0.0] * count, [0] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += costs[i]
    return owners


def _factor_inputs(tape: Tape, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Per layer, the inputs a at all positions, (b, t, r, d); a single one per example where G does the rest."""
    return [
        a.new_ones(len(a), 1, layer.shape[0], 1) if layer.rule.sharing is Sharing.REDUCE else a
        for layer, a in zip(tape.layers, inputs, strict=True)
    ]


def _gradients(tape: Tape, columns: Columns) -> Iterator[list[Tensor]]:
    """For a few columns at a time, the vectors of each layer that make up G, (b, k t, r, o).

    One large product is faster than many small ones.
    """
    if not tape.layers:
        return
    inputs = tape.inputs()
    for chunk in columns.u.split(_at_once(tape), dim=1):
        by_column = [_factor_gradients(tape, inputs, tape.pull(column)) for column in chunk.unbind(1)]
        yield [
            torch.cat(of_layer, dim=1) if len(of_layer) > 1 else of_layer[0]
            for of_layer in zip(*by_column, strict=True)
        ]


def _products(tape: Tape, columns: Columns, P: Sequence[Tensor]) -> Iterator[Tensor]:
    """The terms of sum_k g_k' P g_k, over all layers.

    If J is constant, with g_k = J' u_k it is <J P J', sum_k u_k u_k'>, and only the second factor depends on the
    outputs: a row of J then costs less than a pull for each column and a push for its gradient.
    """
    count, outputs = columns.u.shape[1:]
    if not tape.linear or outputs > 2 * min(count, _at_once(tape)):
        for chunk in _gradients(tape, columns):
            yield from (quadratic(g, P_layer) for g, P_layer in zip(chunk, P, strict=True))
        return
    inputs, D = tape.inputs(), columns.directions()
    rows = [
        _factor_gradients(tape, inputs, tape.gradients(d.expand_as(tape.outputs), create_graph=False)) for d in D.mT
    ]
    u = columns.u @ D  # (b, k, d)
    hessians = u.mT @ u  # (b, d, d), in the directions
    for of_layer, P_layer in zip(zip(*rows, strict=True), P, strict=True):
        yield (bilinear(torch.stack(of_layer, dim=1), P_layer) * hessians).sum()


def _at_once(tape: Tape) -> int:
    """Columns at a time: as many averaged gradients as there are samples take about the memory of the activations."""
    return max(tape.views // len(tape.outputs), 1)


def _factor_gradients(tape: Tape, inputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
    """Per layer, a column's vectors that make up G, (b, t, r, o): g, or the Jacobian if it is summed over positions."""
    return [
        jacobian(g, a).flatten(2).unsqueeze(1) if layer.rule.sharing is Sharing.REDUCE else g
        for layer, a, g in zip(tape.layers, inputs, gradients, strict=True)
    ]
