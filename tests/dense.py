"""The library's curvature structures as dense matrices over all weights in the order of `net.named_parameters()`."""

import torch
from torch import Tensor

from cases import Case
from lila.curvature import Diag, Full, Kron, Layer, Structure
from lila.data.examples import Examples
from lila.laplace.passes import Pass, gather


def curvature(
    case: Case, structure: str, kind: str = "ggn", probes: int | None = None, batch: int = 2, repeats: int = 1
) -> Structure:
    """The curvature of a case, gathered by the library, of the same examples some times over."""
    evidence = case.evidence(structure, kind, **({} if probes is None else {"probes": probes}))
    layers = evidence._layers()
    pass_ = Pass(case.model, case.likelihood, layers, evidence.structure, roots=evidence.roots, draw=case.draw)
    return gather(pass_, list(Examples(case.data).batches(batch)) * repeats)[1]


def dense(structure: Structure) -> Tensor:
    """A structure as a (P, P) matrix."""
    if isinstance(structure, Kron):
        layers = tuple(block.layer for block in structure.blocks)
        blocks = []
        for block in structure.blocks:
            groups = [torch.kron(G.contiguous(), A.contiguous()) for G, A in zip(block.G, block.A, strict=True)]
            blocks.append(torch.block_diag(*groups) / max(block.positions, 1.0))
        matrix = torch.block_diag(*blocks)
    elif isinstance(structure, Diag):
        layers, matrix = structure.layers, torch.diag(torch.cat([block.flatten() for block in structure.blocks]))
    else:
        assert isinstance(structure, Full)
        layers, matrix = structure.layers, structure.matrix
    order = block_order(layers)
    return matrix[order][:, order]


def block_order(layers: tuple[Layer, ...]) -> Tensor:
    """Where each weight, in the order of the parameters, sits in the layers' blocks laid end to end."""
    parts, start = [], 0
    for layer in layers:
        index = torch.arange(start, start + layer.size).reshape(layer.shape)
        parts += [positions.flatten() for positions in layer.split(index).values()]
        start += layer.size
    return torch.cat(parts)
