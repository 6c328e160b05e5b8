"""The likelihood of independent yes/no labels, one per output."""

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.errors import DataError
from lila.model.constant import ConstantAnswer, counts_evidence, smoothed_frequencies
from lila.model.likelihood.base import Likelihood, check_columns, columns


class Bernoulli(Likelihood):
    """Independent yes/no labels, one per output: p(y = 1 | f) = sigmoid(f); Lambda = diag(p (1 - p)).

    A label may also be a probability: the example then counts as that share of a yes, and as the rest of a no.
    """

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(f, columns(f, y), reduction="none").sum(1)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return columns(f, y) - f.sigmoid()

    def sizes(self, f: Tensor) -> Tensor:
        return f.sigmoid() * (-f).sigmoid()

    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        return (0.5 * (F.logsigmoid(f) + F.logsigmoid(-f))).exp()[:, :, None] * z

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        return self.sizes(f).sum(0).diag()

    def predict(self, f: Tensor) -> Tensor:
        """Return the probability that each label is 1."""
        return f.sigmoid()

    def misfit(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the divergence of the predicted probabilities from the labels: -log p less its least."""
        return -self.log_prob(f, y) - _entropy(columns(f, y)).sum(1)

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return how many targets of each output are 1 and, after these, the sum of the targets' own entropies."""
        q = columns(f, y)
        return torch.cat([q.sum(0), _entropy(q).sum()[None]])

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the entropy of each output's frequency of 1, less the mean entropy of the targets; summed."""
        return float(_entropy(sums[:-1] / count).sum() - sums[-1] / count)

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer:
        """Return the frequency of 1 of each output; the evidence is exact, see `lila.model.constant`."""
        yes = sums[:-1]
        counts = torch.stack([count - yes, yes], -1).double()  # of 0 and of 1, shape (c, 2)
        outputs = smoothed_frequencies(counts)[:, 1].logit()
        return ConstantAnswer(float(counts_evidence(counts).sum()), outputs, Bernoulli())

    def check_targets(self, outputs: int, y: Tensor) -> None:
        check_columns("Bernoulli", outputs, y)
        if not ((y >= 0) & (y <= 1)).all():
            raise DataError(
                f"Bernoulli needs labels 0 and 1, or probabilities, but they range from {y.min()} to {y.max()}."
            )


def _entropy(p: Tensor) -> Tensor:
    """Return the entropy of yes/no labels that are yes with probability p."""
    return torch.special.entr(p) + torch.special.entr(1 - p)
