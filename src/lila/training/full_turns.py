"""Angles that came to rest within the circle: whether the full turn has more evidence, and then a step to it.

A step on the gradient is local, and the evidence of an angle's range has maxima where it should have none. Let a
network compute h(a) for an input turned by the angle a, with h(a) = sum_k h_k exp(i k a). Its average over angles from
a - eta to a + eta is

    sum_k h_k sinc(k eta) exp(i k a),    sinc(u) = sin(u) / u,

and the curvature is quadratic in such averages, so that it falls with sinc(k eta)^2. That is zero at eta = pi / k, and
rises behind it. What looks alike after half a turn has much of k = 2: its curvature is small at eta = pi / 2 and larger
until eta = 0.7 pi, so the range stays there. At the full turn, eta = pi, all these terms are zero.

So a run looks beyond: when such a range has come to rest, the objective of some hyper-steps is computed at the full
turn too, for the same examples and noise. The range becomes the full turn if that is better by three standard errors.
Inputs that must not be turned that far are fitted much worse there, and decide against it.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from lila.augment.base import Augmentation, FullTurn
from lila.augment.noise import Draw
from lila.data.examples import Batch
from lila.laplace.running import RunningEvidence

_EVERY = 8  # hyper-steps from one look to the next
_FROM, _TO = 0.5, 0.8  # shares of the run between which it looks: ranges have arrived, weights have time to follow
_LOOKS = 8  # looks for a decision
_LEAST, _MOST = 0.25, 0.95  # share of the full turn between which a range must lie
_REST = 0.05  # share of the full turn by which a range at rest may move between the first look and the last
_CERTAIN = 3.0  # standard errors

# For each angle: the number of looks, sums of the gains of the full turn and of their squares, and the range at the
# first look, as a share of the full turn.
_COUNT, _SUM, _SQUARES, _FIRST = range(4)


class FullTurns:
    """Looks at full turns, and takes those that have more evidence.

    Args:
        augmentation: the augmentation that is learned.
        learned: its parameters that are learned.

    Attributes:
        numbers: what it has seen since the last decision, shape (angles, 4).
    """

    def __init__(self, augmentation: Augmentation, learned: Collection[Tensor]) -> None:
        self._augmentation, self._learned = augmentation, {id(parameter) for parameter in learned}
        self.numbers = torch.zeros(len(self._turns()), 4, dtype=torch.float64)

    def _turns(self) -> list[FullTurn]:
        return [turn for turn in self._augmentation.full_turns() if id(turn.parameter) in self._learned]

    def look(self, running: RunningEvidence, batch: Batch, draw: Draw, *, hyper_step: int, progress: float) -> None:
        """Look at the full turns if it is time for it, and move ranges to them that have more evidence there.

        Args:
            running: the running evidence, decomposed.
            batch: the examples of a hyper-step; with several processes, this one's share of them.
            draw: their noise.
            hyper_step: the number of the hyper-step.
            progress: the share of the run that is done.
        """
        if hyper_step % _EVERY or not _FROM <= progress < _TO:
            return
        here: float | None = None
        for turn, numbers in zip(self._turns(), self.numbers, strict=True):
            if not _LEAST <= turn.share <= _MOST:
                numbers.zero_()
                continue
            if here is None:
                here = running.objective(batch, draw)
            if self._decide(turn, numbers, _at(turn, running, batch, draw) - here):
                _take(turn, turn.value)
                return  # what is known of other angles belongs to the range that was

    def _decide(self, turn: FullTurn, numbers: Tensor, gain: float) -> bool:
        """Note the gain of a look at a full turn, and return whether to take it; begin again after a decision."""
        if not numbers[_COUNT]:
            numbers[_FIRST] = turn.share
        numbers += torch.tensor([1.0, gain, gain**2, 0.0], dtype=torch.float64)
        count, sum_, squares, first = numbers.tolist()
        if count < _LOOKS:
            return False
        numbers.zero_()
        mean = sum_ / count
        variance = max(squares / count - mean**2, 0.0) / (count - 1)  # of the mean
        return abs(turn.share - first) <= _REST and mean > _CERTAIN * variance**0.5


def _at(turn: FullTurn, running: RunningEvidence, batch: Batch, draw: Draw) -> float:
    """Return the objective at a full turn."""
    before = turn.parameter[turn.position].item()
    _take(turn, turn.value)
    try:
        return running.objective(batch, draw)
    finally:
        _take(turn, before)


@torch.no_grad()
def _take(turn: FullTurn, value: float) -> None:
    turn.parameter[turn.position] = value
