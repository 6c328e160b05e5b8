"""The evidence of all examples, estimated from some batches alone.

It is kept apart from the running averages, so that a run can compare other hyperparameters with its own, on the same
examples and the same noise.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from lila.augment.noise import Draw
from lila.curvature import CurvatureSum
from lila.data.examples import Batch
from lila.laplace.running import RunningEvidence


class SampledEvidence:
    """Sums over batches, and the evidence that they stand for.

    The hyperparameters of the augmentation must be the same for all batches.

    Args:
        running: the running evidence of the run, decomposed; it is not changed.
    """

    def __init__(self, running: RunningEvidence) -> None:
        self._running = running
        self._total = CurvatureSum(running.evidence.no_curvature())
        self._numbers = torch.zeros(2, dtype=torch.float64)  # of examples, of their log-likelihoods

    def add(self, batch: Batch, draw: Draw, count: int) -> float:
        """Add a batch, and return [log-likelihood of B - 1/2 <P, curvature of B>], whose gradient a hyper-step takes.

        Args:
            batch: examples; with several processes, this one's share of them.
            draw: their noise.
            count: the number of examples of all processes.
        """
        running, evidence = self._running, self._running.evidence
        assert running.cotangent is not None, "it was decomposed"
        sums = torch.zeros(2, dtype=torch.float64, device=batch.x.device)  # of log-likelihoods, of 1/2 <P, curvature>
        with torch.no_grad(), evidence.ranks.together(sums.device):
            for part in batch.split(evidence.microbatch):
                log_likelihoods, tape, columns = running.recorded(part, draw, differentiable=False)
                sums[0] += log_likelihoods.sum()
                sums[1] += 0.5 * self._total.add_and_pair(tape, columns, running.cotangent)
        evidence.ranks.sum_([sums])
        log_likelihood, price = sums.tolist()
        self._numbers += torch.tensor([count, log_likelihood], dtype=torch.float64)
        return log_likelihood - price

    def value(self) -> float:
        """Return the evidence of all N examples under the present prior."""
        seen, log_likelihood = self._numbers.tolist()
        running = self._running
        scaled = log_likelihood * running.examples / seen
        return running.evidence.assess(scaled, running.whole(self._total, seen)).value

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that changes, by name, not copied."""
        return {"numbers": self._numbers} | {str(i): tensor for i, tensor in enumerate(self._total.tensors())}

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` returned."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    def consolidate(self) -> None:
        """Add the sums of all processes up in the first one, so that its state is complete; the others begin anew."""
        self._total.sum_over(self._running.evidence.ranks)
        self.leave_to_first()

    def leave_to_first(self) -> None:
        """Clear the sum, unless this is the first process."""
        if not self._running.evidence.ranks.first:
            self._total.clear()
