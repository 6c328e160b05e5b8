"""What a report shows of one run, whatever it was read from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from lila.augment.base import Augmentation
from lila.data.images import SERIES_DIMENSIONS
from lila.data.task import Scaling
from lila.errors import DataError
from lila.model.metrics import CalibrationBin
from lila.results.report.commands import NextStep, command, next_steps
from lila.training.baselines import NO_BASELINES, Baselines
from lila.training.description import NO_OWN_CODE, OwnCode, TaskDescription, read_description
from lila.training.history import EpochRecord
from lila.training.methods import PROCEDURES, LearnedBy, MethodName
from lila.training.result import read_result
from lila.training.run import Run
from lila.training.summary import BAR
from lila.training.tasks import open_run
from lila.training.verdict import NO_DOUBT, Verdict

_NOTICEABLE = 0.5 / BAR  # share from which on a range is worth a word: the table shows half a block of a bar
_IMAGES = 24
_SENTENCES = {
    LearnedBy.EVIDENCE: "By the evidence, what leaves the label unchanged is {learned}.",
    LearnedBy.LOSS: "The training loss ended with {learned}; it is no measure of what leaves the label unchanged.",
    LearnedBy.NOTHING: "The network was trained with what it was given: {learned}.",
}


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What a report shows of one run.

    Attributes:
        title: what the run is called.
        augmentation: with its learned ranges.
        shape: of an input.
        history: one record per epoch.
        evidence: the value and the terms of the last estimate, in nats.
        scores: on the test data, if there was any.
        baselines: what simpler models of the same data are worth.
        verdict: what is wrong with the run.
        range_errors: the error bars of the ranges, as in `Run`.
        examples: the number of training examples; None if it is not known.
        confusion: as in `Run`.
        calibration: as in `Run`.
        classes: the names of the classes, if they are known.
        settings: by name.
        versions: of the software that made it.
        again: the command that makes it again, if that is known.
        next_steps: what can be done with the run.
        truth: the ranges of the data, if they are known.
        images: a few inputs of the network, shape (n, c, h, w) or (n, c, t), if they are images or time series.
        labels: the names of their classes.
        without_images: why there are no images, if there could be some.
        scaling: of their pixels.
    """

    title: str
    augmentation: Augmentation
    shape: tuple[int, ...]
    history: Sequence[EpochRecord] = field(repr=False)
    evidence: Mapping[str, float]
    scores: Mapping[str, float] | None
    baselines: Baselines = NO_BASELINES
    verdict: Verdict = NO_DOUBT
    range_errors: Mapping[str, float | None] | None = None
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    examples: int | None = None
    confusion: Sequence[Sequence[int]] | None = None
    calibration: Sequence[CalibrationBin] | None = None
    classes: Sequence[str] | None = None
    again: str | None = None
    next_steps: Sequence[NextStep] = ()
    truth: Mapping[str, float] | None = None
    images: Tensor | None = None
    labels: Sequence[str] | None = None
    without_images: str | None = None
    scaling: Scaling | None = None

    @property
    def readable(self) -> Mapping[str, str]:
        """The learned ranges in a person's units, by name."""
        return self.augmentation.readable_ranges(self.shape)

    def sentence(self) -> str:
        """Return what was learned in a sentence, or what is wrong with the run."""
        if self.verdict.doubts:
            return self.verdict.text()
        if not self.readable:
            return f"This network ({self.settings['method']}) is not averaged over transformations: it has no ranges."
        shares, noticed = self.augmentation.shares, self.noticed()
        learned = _listed([f"{name} by {self.readable[name]}" for name in noticed]) if noticed else "nothing"
        rest = " and nothing else" if 0 < len(noticed) < len(shares) else ""
        sentence = _SENTENCES[PROCEDURES[MethodName(self.settings["method"])].eta].format(learned=learned + rest)
        couplings = "; ".join(coupling.text() for coupling in self.augmentation.couplings())
        return f"{sentence} Coupled: {couplings}." if couplings else sentence

    def noticed(self) -> list[str]:
        """Return the names of the ranges that are large enough to be worth a word, largest first."""
        shares = self.augmentation.shares
        return [name for name in sorted(shares, key=lambda name: -shares[name]) if shares[name] >= _NOTICEABLE]

    @property
    def of_series(self) -> bool:
        """Whether the inputs are time series."""
        return len(self.shape) == SERIES_DIMENSIONS

    def undone(self, images: Tensor) -> Tensor:
        """Return inputs of the network as images in [0, 1], or as series in the unit of the data."""
        undone = images if self.scaling is None else self.scaling.undo(images)
        return undone if self.of_series else undone.clamp(0, 1)


def sheet_of_folder(folder: str | Path, own: OwnCode = NO_OWN_CODE, *, named_paths: bool = False) -> Sheet:
    """Return what a report shows of a finished run in a folder.

    Args:
        folder: of the run.
        own: the code of the user's own that the user has named.
        named_paths: whether to show images from a path that the run names. A run may come from a stranger, and a report
            may go to one.
    """
    folder = Path(folder)
    run, task = open_run(folder, own)
    description = read_description(folder)
    images, labels, without_images = (None, None, None) if task is None else _examples(task, named_paths=named_paths)
    return Sheet(
        title=folder.resolve().name,
        augmentation=run.model.augmentation,
        shape=run.shape,
        history=run.history,
        evidence={"value": run.evidence.value, **run.evidence.terms()},
        scores=run.test,
        baselines=run.baselines,
        verdict=run.verdict,
        range_errors=run.range_errors,
        examples=run.examples,
        confusion=run.confusion,
        calibration=run.calibration,
        classes=run.classes,
        settings=_described(run, task),
        versions=read_result(folder, description).versions,
        again=None if task is None else command(task, run.settings, baseline=description.baseline),
        next_steps=next_steps(str(folder), run.model.augmentation, task, own),
        truth=None if task is None else task.true_ranges(),
        images=images,
        labels=labels,
        without_images=without_images,
        scaling=None if task is None else task.scaling,
    )


def _described(run: Run, task: TaskDescription | None) -> dict[str, Any]:
    made_from = {} if task is None else {"data": task.recipe.source, "version": task.recipe.transform}
    network = (
        {}
        if task is None
        else {
            "network": task.model,
            ("training series" if len(task.shape) == SERIES_DIMENSIONS else "training images"): task.examples[0],
        }
    )
    return made_from | network | asdict(run.settings)


def _examples(task: TaskDescription, *, named_paths: bool) -> tuple[Tensor | None, list[str] | None, str | None]:
    """Return a few training images as they were before they were transformed, with their classes, or why not."""
    try:
        return *task.some_examples(_IMAGES, named_paths=named_paths), None
    except DataError as error:
        return None, None, str(error)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
