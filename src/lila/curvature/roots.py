"""The output directions whose pulled-back outer products make up the curvature.

For one example, with J the Jacobian of f_hat in the weights, every curvature here is sum_k (J' u_k) (J' u_k)' for some
columns u_k in output space:

    generalised Gauss-Newton   u = columns of L, where L L' = Lambda        J' Lambda J
    the same with K probes     u = L z, z random signs in K groups          J' Lambda J on average, at K / C of the cost
    empirical Fisher           u = d log p(y | f_hat) / d f_hat             outer product of the gradient

The columns of L are divided among the probes: each probe is the sum, with random signs, of a group of columns. Only the
products of two columns of one group are random. So the groups have about the same total size, and a column that is
larger than all others together has a group of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from lila._util.choices import check_count
from lila.augment.noise import Draw
from lila.model.likelihood import Likelihood


@dataclass(frozen=True)
class Columns:
    """The columns of the examples of a batch.

    Attributes:
        u: the columns, one after the other, shape (b, k, c); differentiable in f and in the likelihood.
        directions: gives an orthonormal basis of a space that all of them lie in, as columns (c, d).
        sum_of_hessians: sum_b Lambda, shape (c, c), if sum_b sum_k u u' equals it exactly; else None.
    """

    u: Tensor
    directions: Callable[[], Tensor]
    sum_of_hessians: Tensor | None = None

    def moment(self) -> Tensor:
        """Return sum_b sum_k u u', shape (c, c)."""
        if self.sum_of_hessians is not None:
            return self.sum_of_hessians
        rows = self.u.flatten(0, 1)
        return rows.mT @ rows

    def weighted(self, weight: float | Tensor) -> "Columns":
        """Return the columns of a sum in which every example has this weight, or each has its own, shape (b,)."""
        if isinstance(weight, Tensor):
            return replace(self, u=weight.to(self.u.dtype).sqrt()[:, None, None] * self.u, sum_of_hessians=None)
        if weight == 1:
            return self
        hessians = None if self.sum_of_hessians is None else weight * self.sum_of_hessians
        return replace(self, u=sqrt(weight) * self.u, sum_of_hessians=hessians)


class CurvatureKind(StrEnum):
    """Which matrix stands in for the Hessian of the negative log-likelihood."""

    GGN = "ggn"
    EF = "ef"


@dataclass(frozen=True)
class Roots:
    """How the columns are chosen.

    Attributes:
        kind: generalised Gauss-Newton or empirical Fisher.
        probes: K, the number of random probes per example, or None for all columns; as many probes as there are columns
            would cost the same, so the columns themselves are used then, which is exact.
    """

    kind: CurvatureKind = CurvatureKind.GGN
    probes: int | None = None

    def __post_init__(self) -> None:
        check_count("probes", self.probes, optional=True)

    def columns(self, likelihood: Likelihood, f: Tensor, y: Tensor, draw: Draw, index: Tensor) -> Columns:
        """Return the columns u of each example of a batch.

        Args:
            likelihood: the likelihood, which has the root and the score.
            f: averaged outputs, shape (b, c).
            y: targets.
            draw: the noise of this pass.
            index: the examples' indices, which fix their probes.
        """
        directions = partial(likelihood.directions, f.detach())
        if self.kind is CurvatureKind.EF:
            return Columns(likelihood.score(f, y).unsqueeze(1), directions)
        sizes = likelihood.sizes(f).detach()  # (b, r)
        if self.probes is None or self.probes >= sizes.shape[1]:
            return Columns(likelihood.root(f).mT, directions, likelihood.sum_of_hessians(f))
        signs = draw.signs(index, (sizes.shape[1],), f.dtype)
        z = F.one_hot(_groups(sizes, self.probes), self.probes) * signs[:, :, None]  # (b, r, k)
        return Columns(likelihood.root_times(f, z).mT, directions)


def _groups(sizes: Tensor, count: int) -> Tensor:
    """Divide columns among groups of about the same total size: sizes (b, r) to groups (b, r) from 0 to count - 1.

    The columns, in order of falling size, are laid end to end and cut into `count` equal parts; a column belongs to the
    part in which it begins. Its group is at most its rank, so that a column larger than a part leaves no group empty.
    """
    ordered, order = sizes.sort(dim=1, descending=True)
    whole = ordered.sum(1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)  # 0 where every probability is 0 or 1
    share = (ordered.cumsum(1) - ordered) / whole
    rank = torch.arange(sizes.shape[1], device=sizes.device)
    group = (count * share).long().clamp(0, count - 1).minimum(rank)
    return torch.empty_like(group).scatter(1, order, group)
