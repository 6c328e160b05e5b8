"""Kronecker factors without the bias that the noise in averages over views brings.

The factors of an invariant network are made of outer products of averages over S views. If the views are independent,
the outer product of such an average is on average too large by the covariance of a view, divided by S. The products of
different views do not have this bias. So at each position, and for each column of the output Hessian's root, a a' is
replaced by the average of the products of different views (a U-statistic),

    1 / (S (S - 1)) sum_{s != s'} a_s a_s''  =  a a' - sum_s (a_s - a) (a_s - a)' / (S (S - 1)),    a = 1/S sum_s a_s,

and g g' likewise. It is the difference of two sums of outer products,

    w [ (sum_s a_s) (sum_s a_s)' - sum_s a_s a_s' ],    w = 1 / (S (S - 1)),

and for the gradients g_s / S, which is what the tape gives, w = S / (S - 1).

Such a factor is a difference, so it may have negative eigenvalues. `eigh` sets these to 0: log-determinants, cotangents
and posteriors are those of the nearest positive semi-definite factor. A cotangent then has, for such an eigenvalue, the
slope of the log-determinant at 0 from above. (The slope of a value that is cut off at 0 would be 0. It would drop the
directions in which noise happened to be negative, and keep those in which it happened to be positive.)

Indices: b examples, s views, t positions, r groups, i entries of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.kron import Kron, is_reduced
from lila.curvature.moments import Outer


@dataclass(frozen=True)
class UnbiasedKron(Kron):
    """Kronecker factors that, for independent views, are on average those of infinitely many views.

    For G this holds exactly if the output Hessian's root does not depend on the views, as for a `Gaussian` likelihood.
    Layers with few weights per group, whose Jacobian is summed over positions, are treated as in `Kron`: their Jacobian
    is a product of two averages, and keeps its bias.
    """

    samples: ClassVar[Samples] = Samples.POSITIONS

    @classmethod
    def _input_moments(cls, tape: Tape, position: int, a: Tensor) -> Sequence[Outer]:
        """Return what the inputs a_s of all views, (b, s t, r, d), add to A."""
        if is_reduced(tape.layers[position]):
            return super()._input_moments(tape, position, a)
        S = _samples(tape)
        return _between_views(_sum_over_views(tape, position, a), a, weight=1 / (S * (S - 1)))

    @classmethod
    def _output_moments(cls, tape: Tape, position: int, a: Tensor, g: Tensor) -> Sequence[Outer]:
        """Return what the gradients g_s / S at all views, (b, s t, r, o), add to G."""
        S, sum_of_g = _samples(tape), _sum_over_views(tape, position, g)
        if is_reduced(tape.layers[position]):
            return super()._output_moments(tape, position, _sum_over_views(tape, position, a) / S, sum_of_g)
        return _between_views(sum_of_g, g, weight=S / (S - 1))


def _between_views(total: Tensor, each: Tensor, weight: float) -> Sequence[Outer]:
    """Return the products w x_s x_s'' of different views, from their sum (b, t, r, i) and each (b, s t, r, i)."""
    return Outer(total, weight), Outer(each, -weight)


def _sum_over_views(tape: Tape, position: int, x: Tensor) -> Tensor:
    """Sum the vectors of a layer over the views, use by use: (b, s t, r, i) to (b, t, r, i)."""
    sizes = [a.shape[1] for a in tape.uses[position]]
    if not sizes:  # the layer was never reached: it has no positions
        return x
    sums = [use.unflatten(1, (_samples(tape), -1)).sum(1) for use in x.split(sizes, dim=1)]
    return sums[0] if len(sums) == 1 else torch.cat(sums, dim=1)


def _samples(tape: Tape) -> int:
    """Return S, the number of views of an example."""
    return tape.views // len(tape.outputs)
