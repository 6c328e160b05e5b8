"""Speed-up: the outer products of several columns are one product.

The gradients of the columns are pulled back one after the other, but g_1 g_1' + ... + g_K g_K' is computed as one
product of matrices, which is faster than K small ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import torch

from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.moments import Contribution, Outer


def columns_at_once(tape: Tape) -> int:
    """Return how many columns to multiply together; 1 if the speed-up is off.

    As many averaged gradients as there are samples take about the memory of the activations. Gradients that keep the
    samples apart are as large as the activations themselves, so they are taken one column at a time.
    """
    if not tape.speedups.column_chunks or tape.samples is Samples.POSITIONS:
        return 1
    return max(tape.views // len(tape.outputs), 1)


def joined(columns: Iterable[Sequence[Contribution]], size: int) -> Iterator[Contribution]:
    """Yield the contributions of all columns, those of `size` columns at a time joined into one per factor.

    Args:
        columns: for each column, its contributions, each with an `Outer`, in the same order for every column.
        size: how many columns to join.
    """
    remaining = iter(columns)
    while chunk := list(islice(remaining, size)):
        for parts in zip(*chunk, strict=True):
            outers = [_outer(part) for part in parts]
            if len(outers) > 1:
                x = torch.cat([outer.x for outer in outers], dim=1)  # (b, k t, r, o)
                yield replace(parts[0], moment=replace(outers[0], x=x))
            else:
                yield parts[0]


def _outer(contribution: Contribution) -> Outer:
    assert isinstance(contribution.moment, Outer)
    return contribution.moment
