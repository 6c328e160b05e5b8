"""How long a run will take, from one step of each kind that is measured before the first epoch.

    total = sum over epochs [ batches * w + hyper-steps * (h + decompositions per hyper-step * d) ] + end + comparison

where w, h and d are the seconds of a step of the weights, of a hyper-step and of a decomposition, the end is the final
evidence with the error bars and the scores on the test data, and the comparison is the training of the same network
without invariance, if there is one. The kinds are kept apart, as hyper-steps may begin late in a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lila.training.history import EpochRecord
from lila.training.methods import LearnedBy
from lila.training.settings import ResolvedSettings

_LATELY = 5  # epochs whose times stand for those to come


@dataclass(frozen=True)
class StepSeconds:
    """The seconds of one step of each kind.

    Attributes:
        weights: of a step of the weights, on one batch.
        hyper: of a hyper-step: on a part of a batch, or by passes over the data after an epoch.
        decomposition: of a decomposition of the curvature.
        end: of what follows the last epoch: the final evidence, error bars, and the scores on the test data.
        comparison: of the whole training of the same network without invariance, which follows the run; 0 without it.
    """

    weights: float
    hyper: float = 0.0
    decomposition: float = 0.0
    end: float = 0.0
    comparison: float = 0.0


@dataclass(frozen=True)
class StepCounts:
    """The numbers of steps of a run.

    Attributes:
        batches: steps of the weights in each epoch.
        hyper: hyper-steps in each epoch, on average if they are not the same for all.
        decompositions: decompositions per hyper-step.
    """

    batches: int
    hyper: tuple[float, ...]
    decompositions: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What is known of the time of a run before its first epoch.

    Attributes:
        counts: the numbers of steps of the whole run.
        seconds: the measured seconds of a step.
    """

    counts: StepCounts
    seconds: StepSeconds

    def total(self, done: int = 0) -> float:
        """Return the seconds of the run after the first `done` epochs, the end and the comparison included."""
        return sum(self.parts(done).values())

    def parts(self, done: int = 0) -> dict[str, float]:
        """Return the seconds of the run after the first `done` epochs, by what they are spent on."""
        epochs, hyper = len(self.counts.hyper) - done, sum(self.counts.hyper[done:])
        return {
            "weights": epochs * self.counts.batches * self.seconds.weights,
            "hyper-steps": hyper * self.seconds.hyper,
            "decompositions": hyper * self.counts.decompositions * self.seconds.decomposition,
            "end": self.seconds.end,
            "network without invariance": self.seconds.comparison,
        }

    def left(self, history: Sequence[EpochRecord]) -> float:
        """Return the seconds that remain after some epochs.

        The times of the last epochs stand for those to come, those of hyper-steps only once all that is learned moves.
        Until then they follow from the forecast, corrected by how well it foretold the steps of the weights.

        Args:
            history: the records of all epochs so far.
        """
        if not history:
            return self.total()
        late, done = history[-_LATELY:], len(history)
        weights = sum(record.seconds.weights for record in late) / len(late)
        foretold = self.counts.batches * self.seconds.weights
        a_step = self.seconds.hyper + self.counts.decompositions * self.seconds.decomposition
        a_step *= weights / foretold if foretold else 1.0
        full = _in_full(history)[-_LATELY:]
        if full:
            a_step = sum(record.seconds.hyper for record in full) / sum(record.hyper_steps for record in full)
        hyper = sum(self.counts.hyper[done:]) * a_step
        return (len(self.counts.hyper) - done) * weights + hyper + self.seconds.end + self.seconds.comparison


def _in_full(history: Sequence[EpochRecord]) -> list[EpochRecord]:
    """Return the records of epochs whose hyper-steps did all that those to come will do."""
    before = [None, *history]
    return [
        record
        for record, previous in zip(history, before, strict=False)
        if record.hyper_steps and record.evidence is not None
        if not record.ranges or (previous is not None and record.ranges != previous.ranges)
    ]


def hyper_epochs(settings: ResolvedSettings) -> tuple[float, ...]:
    """Return the number of hyper-steps that follow each epoch, for passes over the data after an epoch."""
    if LearnedBy.EVIDENCE not in (settings.procedure.eta, settings.procedure.prior):
        return (0.0,) * settings.epochs
    return tuple(float(follows_epoch(settings, epoch)) for epoch in range(settings.epochs))


def follows_epoch(settings: ResolvedSettings, epoch: int) -> bool:
    """Return whether a hyper-step follows an epoch, counted from 0, for passes over the data after an epoch."""
    burn_in = settings.burn_in or 0
    return epoch >= burn_in and (epoch - burn_in) % (settings.hyper_every or 1) == 0


def readable_seconds(seconds: float) -> str:
    """Return a duration as people say it: "45 s", "3 min 05 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
