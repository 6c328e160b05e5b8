"""Share the eigendecompositions of many factors among processes that all have the factors."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lila._util.ranks import Ranks
from lila.curvature.eigen import Eigen


def decompose_together(
    factors: Sequence[Tensor], decompose: Sequence[Callable[[Tensor], Eigen]], ranks: Ranks
) -> list[Eigen]:
    """Return the eigenvalues and eigenvectors of all factors, each computed by one process and sent to the others.

    Args:
        factors: matrices (r, i, i).
        decompose: for each factor, the function that decomposes it.
        ranks: the processes.
    """
    owners = _owners([factor.shape[0] * factor.shape[1] ** 3 for factor in factors], ranks.count)
    eigen: list[Eigen] = []
    with ranks.together(factors[0].device):
        for factor, function, owner in zip(factors, decompose, owners, strict=True):
            mine = owner == ranks.rank
            eigen.append(function(factor) if mine else (torch.empty_like(factor[:, 0]), torch.empty_like(factor)))
    for rank in range(ranks.count):
        theirs = [pair for pair, owner in zip(eigen, owners, strict=True) if owner == rank]
        ranks.send_([tensor for pair in theirs for tensor in pair], source=rank)
    return eigen


def _owners(costs: Sequence[float], count: int) -> list[int]:
    """Return who does each piece of work: in order of falling cost, the process with the least work so far."""
    loads, owners = [0.0] * count, [0] * len(costs)
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += costs[i]
    return owners
