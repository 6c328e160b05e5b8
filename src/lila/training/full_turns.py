"""Angles that came to rest within the circle: whether the full turn has more evidence, and then a step to it.

A step on the gradient is local, and the evidence of an angle's range has maxima where it should have none. Let a
network compute h(a) for an input turned by the angle a, with h(a) = sum_k h_k exp(i k a). Its average over angles from
a - eta to a + eta is

    sum_k h_k sinc(k eta) exp(i k a),    sinc(u) = sin(u) / u,

and the curvature is quadratic in such averages, so that it falls with sinc(k eta)^2. That is zero at eta = pi / k, and
rises behind it. What looks alike after half a turn has much of k = 2: its curvature is small at eta = pi / 2 and larger
until eta = 0.7 pi, so the range stays there. At the full turn, eta = pi, all these terms are zero.

So a run looks beyond: when such a range has come to rest, the evidence is estimated from the examples of some
hyper-steps, at the range that was learned and at the full turn, with the same noise. The range becomes the full turn if
the evidence is larger there by three standard errors. Inputs that must not be turned that far are fitted much worse
there, and decide against it.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from math import sqrt

import torch
from torch import Tensor

from lila.augment.base import Augmentation, FullTurn
from lila.augment.noise import Draw
from lila.data.examples import Batch
from lila.laplace.running import RunningEvidence
from lila.laplace.sampled import SampledEvidence
from lila.training.optimisers import without_prefix

_EVERY = 4  # hyper-steps from one look to the next
_FROM, _TO = 0.5, 0.8  # shares of the run between which it looks: ranges have arrived, weights have time to follow
_LOOKS = 16  # looks for a decision
_LEAST, _MOST = 0.25, 0.95  # share of the full turn between which a range must lie
_REST = 0.05  # share of the full turn by which a range at rest may move between the first look and the last
_CERTAIN = 3.0  # standard errors
_PLACES = ("here", "there")  # names of the two sums: at the present range, and at the full turn

# Of the angle that is looked at: its position among the angles, the number of looks, its share of the full turn at the
# first look, and sums of the gains of the full turn in the objective of a batch, and of their squares.
_ANGLE, _COUNT, _FIRST, _SUM, _SQUARES = range(5)


class FullTurns:
    """Looks at the full turn of one angle after the other, and takes those that have more evidence.

    Args:
        augmentation: the augmentation that is learned.
        learned: its parameters that are learned.

    Attributes:
        sampled: the evidence at the present range and at the full turn, of the batches that it has looked at; empty
            between a decision and the next look.
    """

    def __init__(self, augmentation: Augmentation, learned: Collection[Tensor]) -> None:
        self._augmentation, self._learned = augmentation, {id(parameter) for parameter in learned}
        self._numbers = torch.zeros(5, dtype=torch.float64)
        self.sampled: tuple[SampledEvidence, ...] = ()

    def look(
        self, running: RunningEvidence, batch: Batch, draw: Draw, count: int, *, hyper_step: int, progress: float
    ) -> None:
        """Look at a full turn if it is time for it, and move the range there if it has more evidence.

        Args:
            running: the running evidence, decomposed.
            batch: the examples of a hyper-step; with several processes, this one's share of them.
            draw: their noise.
            count: the number of examples of all processes.
            hyper_step: the number of the hyper-step.
            progress: the share of the run that is done.
        """
        if progress >= _TO:
            self.sampled = ()
        if hyper_step % _EVERY or not _FROM <= progress < _TO:
            return
        turns = [turn for turn in self._augmentation.full_turns() if id(turn.parameter) in self._learned]
        if not self.sampled and not self._chosen(turns, running):
            return
        turn, (here, there) = turns[int(self._numbers[_ANGLE])], self.sampled
        objective = here.add(batch, draw, count)
        with _taken(turn):
            gain = there.add(batch, draw, count) - objective
        self._numbers += torch.tensor([0.0, 1.0, 0.0, gain, gain**2], dtype=torch.float64)
        if self._numbers[_COUNT] == _LOOKS:
            at_rest = abs(turn.share - float(self._numbers[_FIRST])) <= _REST
            if at_rest and there.value() - here.value() > _CERTAIN * self._standard_error(running, count):
                _take(turn)
            self.sampled = ()

    def _chosen(self, turns: list[FullTurn], running: RunningEvidence) -> bool:
        """Begin with the next angle that lies half-way, and return whether there is one."""
        last = int(self._numbers[_ANGLE])
        for angle in (*range(last + 1, len(turns)), *range(min(last + 1, len(turns)))):
            if _LEAST <= turns[angle].share <= _MOST:
                self._numbers = torch.tensor([angle, 0.0, turns[angle].share, 0.0, 0.0], dtype=torch.float64)
                self.sampled = SampledEvidence(running), SampledEvidence(running)
                return True
        return False

    def _standard_error(self, running: RunningEvidence, count: int) -> float:
        """Return that of the gain in evidence, from the gains of single batches in the objective of a hyper-step."""
        _, looks, _, sum_, squares = self._numbers.tolist()
        variance = max(squares - sum_**2 / looks, 0.0) / (looks - 1)  # of the gain of a batch
        return running.examples / count * sqrt(variance / looks)

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that changes, by name, not copied."""
        named = {"numbers": self._numbers}
        for place, sampled in zip(_PLACES, self.sampled, strict=False):
            named |= {f"{place}.{name}": tensor for name, tensor in sampled.tensors().items()}
        return named

    def load_tensors(self, tensors: Mapping[str, Tensor], running: RunningEvidence) -> None:
        """Put back what `tensors` returned."""
        self._numbers = tensors["numbers"].clone()
        self.sampled = ()
        if f"{_PLACES[0]}.numbers" in tensors:
            self.sampled = SampledEvidence(running), SampledEvidence(running)
            for place, sampled in zip(_PLACES, self.sampled, strict=True):
                sampled.load_tensors(without_prefix(tensors, f"{place}."))


@contextmanager
def _taken(turn: FullTurn) -> Iterator[None]:
    """Have the range at the full turn for a while."""
    before = turn.parameter[turn.position].item()
    _take(turn)
    try:
        yield
    finally:
        with torch.no_grad():
            turn.parameter[turn.position] = before


@torch.no_grad()
def _take(turn: FullTurn) -> None:
    turn.parameter[turn.position] = turn.value
