"""The record of an epoch, and the forms in which a history of records is kept: JSON lines, columns, flat numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import ceil, isfinite
from statistics import stdev
from typing import Any

from lila.errors import ArgumentError, NumericalError
from lila.laplace.terms import Terms
from lila.training.schema import checked


@dataclass(frozen=True)
class Seconds:
    """How long an epoch took.

    Attributes:
        weights: the seconds of the steps of the weights.
        hyper: the seconds of the hyper-steps.
    """

    weights: float = 0.0
    hyper: float = 0.0

    @property
    def total(self) -> float:
        """The seconds of the whole epoch."""
        return self.weights + self.hyper


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """What is known of a run after an epoch.

    Attributes:
        epoch: the number of the epoch, from 1.
        loss: the mean negative log-likelihood of the training examples during the epoch.
        accuracy: the share of training examples that were classified correctly; None if the targets are no classes.
        evidence: the terms of the evidence; None if no hyper-step has estimated it.
        hyper_steps: the number of hyper-steps in the epoch.
        ranges: the range of each transformation, in its generator's unit.
        readable_ranges: the ranges in a person's units.
        parameters: the values of each parameter of the augmentation, flattened.
        precisions: the mean prior precision of each group of weights.
        likelihood: the values of each parameter of the likelihood, flattened.
        peak_bytes: the most memory that the process has used so far.
        seconds: how long the epoch took.
    """

    epoch: int
    loss: float
    accuracy: float | None = None
    evidence: Terms | None = None
    hyper_steps: int = 0
    ranges: Mapping[str, float] = field(default_factory=dict)
    readable_ranges: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, list[float]] = field(default_factory=dict)
    precisions: Mapping[str, float] = field(default_factory=dict)
    likelihood: Mapping[str, list[float]] = field(default_factory=dict)
    peak_bytes: int = 0
    seconds: Seconds = field(default_factory=Seconds)

    def __post_init__(self) -> None:
        if self.epoch < 1:
            raise ArgumentError(f"Epochs are counted from 1, but this one is {self.epoch}.")
        if self.accuracy is not None and not 0 <= self.accuracy <= 1:
            raise ArgumentError(f"An accuracy lies between 0 and 1, but this one is {self.accuracy}.")
        for name, value in scalars(self).items():
            if not isfinite(value):
                raise NumericalError(f"The value of {name} is not finite: {value}.")


def scalars(record: EpochRecord) -> dict[str, float]:
    """Return all numbers of a record by name, as experiment trackers take them.

    Grouped numbers have names with a slash: "evidence/value", "ranges/rotation", "seconds/hyper". Where a group has a
    single number without a name, such as the precision of a prior with one for all weights, the group names it.
    """
    flat: dict[str, float] = {}
    for name, value in to_json(record).items():
        group = value if isinstance(value, Mapping) else {"": value}
        named = {f"{name}/{part}" if part else name: number for part, number in group.items()}
        flat |= {part: number for part, number in named.items() if isinstance(number, int | float)}
    return flat


def to_json(record: EpochRecord) -> dict[str, Any]:
    """Return a record as JSON; an accuracy or evidence that is None is left out."""
    values = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    values |= {"seconds": asdict(record.seconds)}
    if record.evidence is not None:
        values["evidence"] = {"value": record.evidence.value, **record.evidence.terms()}
    return {name: value for name, value in values.items() if value is not None}


def from_json(value: Any, place: str) -> EpochRecord:
    """Check what `to_json` gave and make the record again.

    Args:
        value: the JSON value.
        place: the file and the line, for messages.
    """
    if isinstance(value, dict) and isinstance(value.get("evidence"), dict):
        terms = {name: term for name, term in value["evidence"].items() if name != "value"}  # which is their sum
        value = value | {"evidence": {"standard_error": 0.0} | terms}
    record: EpochRecord = checked(EpochRecord, value, place)
    return record


@dataclass(frozen=True)
class RangeSpread:
    """How much the ranges still changed at the end of a run: no error bar, but a sign that they have settled or not.

    Attributes:
        epochs: the number of the last epochs that were looked at: a tenth of all, at least two.
        deviations: the standard deviation of each range over these epochs, in its generator's unit.
    """

    epochs: int
    deviations: Mapping[str, float]


def range_spread(history: Sequence[EpochRecord]) -> RangeSpread | None:
    """Return how much the ranges still changed at the end; None if there are no ranges, or fewer than two epochs."""
    if len(history) < 2 or not history[-1].ranges:
        return None
    last = history[-max(ceil(len(history) / 10), 2) :]
    return RangeSpread(len(last), {name: stdev(record.ranges[name] for record in last) for name in last[-1].ranges})


def to_columns(history: Sequence[EpochRecord]) -> dict[str, Any]:
    """Return what changes over a run as columns: a list with an entry per epoch, or an object of such lists."""
    evidence = [{} if r.evidence is None else {"value": r.evidence.value, **r.evidence.terms()} for r in history]
    terms = dict.fromkeys(name for of_epoch in evidence for name in of_epoch)
    return {
        "epoch": [record.epoch for record in history],
        "loss": [record.loss for record in history],
        "ranges": {name: [record.ranges[name] for record in history] for name in history[0].ranges},
        "evidence": {name: [of_epoch.get(name) for of_epoch in evidence] for name in terms or ("value",)},
        "seconds": {
            "weights": [record.seconds.weights for record in history],
            "hyper": [record.seconds.hyper for record in history],
        },
    }


def from_columns(columns: Mapping[str, Any]) -> list[EpochRecord]:
    """Return the records of columns as `to_columns` makes them; what columns do not hold is left empty."""
    history = []
    for i, epoch in enumerate(columns["epoch"]):
        row = {name: {part: column[i] for part, column in columns[name].items()} for name in ("ranges", "seconds")}
        terms = {name: column[i] for name, column in columns["evidence"].items() if name != "value"}
        known = bool(terms) and None not in terms.values()
        history.append(
            EpochRecord(
                epoch=epoch,
                loss=columns["loss"][i],
                evidence=Terms(**terms) if known else None,
                ranges=row["ranges"],
                seconds=Seconds(**row["seconds"]),
            )
        )
    return history
