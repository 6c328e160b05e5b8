"""The output directions whose pulled-back outer products make up the curvature.

For one example, with J the Jacobian of f_hat in the weights, every curvature here is sum_k (J' u_k) (J' u_k)' for some
columns u_k in output space:

    generalised Gauss-Newton   u = columns of L, where L L' = Lambda        J' Lambda J
    the same with K probes     u = L z / sqrt(K), z random signs            J' Lambda J on average, at K / C of the cost
    empirical Fisher           u = d log p(y | f_hat) / d f_hat             outer product of the gradient
"""

from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from torch import Tensor

from lila.choices import check_count
from lila.likelihood import Likelihood
from lila.noise import Draw


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

    def columns(self, likelihood: Likelihood, f: Tensor, y: Tensor, draw: Draw, index: Tensor) -> Tensor:
        """The columns u of each example of a batch, shape (b, c, k); differentiable in f and in the likelihood.

        Args:
            likelihood: gives the root or the score.
            f: averaged outputs, shape (b, c).
            y: targets.
            draw: the noise of this pass.
            index: the examples' indices, which fix their probes.
        """
        if self.kind is CurvatureKind.EF:
            return likelihood.score(f, y).unsqueeze(2)
        root = likelihood.root(f)  # (b, c, r)
        if self.probes is None or self.probes >= root.shape[2]:
            return root
        # (k, r) and not (r, k): the first probes of an example are the same however many there are.
        signs = draw.signs(index, (self.probes, root.shape[2]), root.dtype).mT
        return root @ signs / sqrt(self.probes)
