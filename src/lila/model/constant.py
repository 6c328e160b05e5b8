"""The constant answer: what can be said of a target without looking at the input, and what that is worth.

A network whose evidence is below that of the constant answer has explained nothing of how targets depend on inputs. The
evidence of the constant answer needs no approximation where its few parameters have a conjugate prior. For C classes of
which class c occurs n_c times among N targets, and frequencies p with the uniform prior Dirichlet(1, ..., 1),

    p(y_1, ..., y_N) = integral prod_c p_c^n_c Dirichlet(p | 1) dp = Gamma(C) prod_c Gamma(n_c + 1) / Gamma(N + C).

The answer itself is the mean of the posterior, p_c = (n_c + 1) / (N + C), so that a class that is missing among the
training data has a finite log-likelihood. Yes/no labels are the case C = 2, for each output on its own.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lila.model.likelihood import Likelihood


@dataclass(frozen=True, eq=False)
class ConstantAnswer:
    """The constant answer to some targets.

    Attributes:
        evidence: its log marginal likelihood of all these targets, in nats.
        outputs: the outputs of a network that always gives this answer, shape (c,).
        likelihood: the likelihood of the targets given these outputs.
    """

    evidence: float
    outputs: Tensor
    likelihood: "Likelihood"

    @torch.no_grad()
    def scores(self, y: Tensor) -> dict[str, float]:
        """Return how good the answer is for other targets, or for the same, as `Likelihood.metrics` does."""
        outputs = self.outputs.to(y.device)
        return self.likelihood.to(y.device).metrics(outputs.expand(len(y), -1), y)


def counts_evidence(counts: Tensor) -> Tensor:
    """Return log Gamma(C) + sum_c log Gamma(n_c + 1) - log Gamma(N + C), for counts n_c along the last dimension."""
    classes = counts.new_tensor(float(counts.shape[-1]))
    return torch.lgamma(classes) + torch.lgamma(counts + 1).sum(-1) - torch.lgamma(counts.sum(-1) + classes)


def smoothed_frequencies(counts: Tensor) -> Tensor:
    """Return (n_c + 1) / (N + C), for counts n_c along the last dimension."""
    return (counts + 1) / (counts.sum(-1, keepdim=True) + counts.shape[-1])
