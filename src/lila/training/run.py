"""What a training run leaves: the invariant network, what it learned, and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from lila.augment.base import InputFormat
from lila.augment.pipelines import LearnedTransform, native_transform
from lila.curvature import Structure
from lila.errors import ArgumentError
from lila.laplace.posterior import Posterior
from lila.laplace.terms import Estimate, Terms
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.metrics import CalibrationBin
from lila.model.prior import GaussianPrior
from lila.training.baselines import NO_BASELINES, Baselines
from lila.training.checkpoint import (
    CHECKPOINT,
    Checkpoint,
    CheckpointWriter,
)
from lila.training.description import RunDescription, TaskDescription, read_description
from lila.training.history import EpochRecord
from lila.training.lock import locked
from lila.training.posterior_file import write_posterior
from lila.training.range_errors import RangeErrors
from lila.training.result import write_result
from lila.training.settings import ResolvedSettings
from lila.training.state import State
from lila.training.summary import summary_of
from lila.training.verdict import Verdict, judge


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A finished run.

    Attributes:
        settings: how it was trained.
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights.
        history: one record per epoch.
        evidence: the final estimate with its terms; of a run that was just trained it also holds the curvature.
        test: scores on the test data, if there was any.
        confusion: the number of test examples of each class (rows) that were predicted to be of each class (columns);
            None without test data, and if the targets are no classes or more than 200.
        calibration: how often test predictions of about the same confidence are right, in bins of confidence; None
            without test data, and if the targets are no classes.
        shape: of one input.
        baselines: what simpler models of the same data are worth.
        never_predicted: the classes that several test examples have and that the network predicts for none of them;
            of up to 2,000 training examples if there is no test data.
        examples: the number of training examples.
        class_names: the names of the classes, if the training data is a Dataset that has them as `classes`.
        task: what `lila train` made the run from; None for a run of Python.
        range_errors: the error bar of each range in its generator's unit, from the curvature of the evidence, and None
            for a range in which the evidence is not concave. None if the ranges are not learned by the evidence, or if
            the run is so short that error bars would be a large part of its cost.
    """

    settings: ResolvedSettings
    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    history: list[EpochRecord]
    evidence: Terms
    test: dict[str, float] | None
    confusion: list[list[int]] | None = None
    calibration: list[CalibrationBin] | None = None
    shape: tuple[int, ...]
    examples: int
    baselines: Baselines = NO_BASELINES
    never_predicted: tuple[int, ...] = ()
    class_names: tuple[str, ...] | None = None
    task: TaskDescription | None = None
    range_errors: RangeErrors | None = None

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, if `lila train` made the run or the training data has them."""
        return self.class_names if self.task is None else tuple(self.task.classes)

    def __repr__(self) -> str:
        """Return what the run is in a few lines."""
        readable = ", ".join(
            f"{name} {text}" for name, text in self.model.augmentation.readable_ranges(self.shape).items()
        )
        scores = ", ".join(f"{name} {value:.4g}" for name, value in (self.test or {}).items())
        weights = sum(p.numel() for p in self.model.net.parameters())
        lines = [
            f"Run(method={self.settings.method!r}, epochs={len(self.history)}, examples={self.examples}, "
            f"weights={weights}, evidence={self.evidence.value:.1f}",
            f"    ranges: {readable or 'none'}",
            f"    test: {scores or 'none'})",
        ]
        return "\n".join(lines)

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned range of each transformation, in its generator's own unit."""
        return self.model.augmentation.ranges

    @property
    def verdict(self) -> Verdict:
        """What is wrong with the run, if anything is: see `lila.training.verdict`."""
        return judge(self)

    def summary(self) -> str:
        """Return what was learned, in a few lines."""
        return summary_of(self)

    @property
    def posterior(self) -> Posterior:
        """The Laplace posterior over the weights, from the factors of the final estimate of the evidence."""
        return Posterior(self.model, self.likelihood, self.prior, self._curvature())

    @property
    def input_format(self) -> InputFormat:
        """The shape of an input, and how `lila train` scaled its pixels; not at all in a run of Python."""
        if self.task is None:
            channels = self.shape[0] if len(self.shape) == 3 else 1
            return InputFormat(self.shape, (0.0,) * channels, (1.0,) * channels)
        return InputFormat(self.shape, self.task.scaling.mean, self.task.scaling.std)

    @overload
    def transform(self, library: None = None, *, inputs: InputFormat | None = None) -> LearnedTransform: ...

    @overload
    def transform(self, library: str, *, inputs: InputFormat | None = None, **options: Any) -> Any: ...

    def transform(self, library: str | None = None, *, inputs: InputFormat | None = None, **options: Any) -> Any:
        """Return the learned augmentation as a transform for a pipeline that loads data, which draws its own noise.

        Args:
            library: "torchvision", "kornia" or "albumentations" for a transform of that library; None for a module of
                PyTorch that takes tensors, PIL images, and torchvision's samples with masks, boxes and key points.
            inputs: how pixels were scaled for training. The transform is then given pixels that are not scaled yet. The
                default, `input_format`, knows it for a run of `lila train`; a run of Python was given its inputs as
                they are, so its transform takes such inputs.
            **options: arguments of the library's own transforms, as `p=0.5` for kornia and albumentations.
        """
        if library is None and options:
            raise ArgumentError(
                f"The options {', '.join(options)} are those of a library's own transforms; name the library: "
                "run.transform('kornia', ...)."
            )
        learned = LearnedTransform(self.model.augmentation, inputs or self.input_format)
        return learned if library is None else native_transform(learned, library, **options)

    def _curvature(self) -> Structure:
        if not isinstance(self.evidence, Estimate):
            raise ArgumentError(
                "This run was saved without its posterior (run.save_posterior(folder), or `lila train "
                "--save-posterior`), so it does not hold the curvature. For a run of `lila train`, `lila resume RUN "
                "--save-posterior` adds it. In Python, estimate it again from the training data: "
                "evidence.posterior(evidence.estimate(data)), with evidence = lila.Evidence(run.model, run.likelihood, "
                f"run.prior, structure={self.settings.structure!r}, curvature={self.settings.curvature!r}, "
                f"layers={self.settings.procedure.layers!r})."
            )
        return self.evidence.curvature

    def save(self, folder: str | Path, *, posterior: bool = False) -> None:
        """Write the run to a folder, from which `lila.load` reads it.

        Args:
            folder: where to write it.
            posterior: whether to write the curvature too, so that the loaded run has its posterior. With Kronecker
                factors it takes some times the memory of the weights; see `save_posterior`.
        """
        if posterior:
            self._curvature()  # before anything is written
        folder = Path(folder)
        with locked(folder):
            if (folder / CHECKPOINT).exists():
                raise ArgumentError(f"{folder} already holds a run; choose another folder.")
            description = RunDescription.of(self.settings, self.model, self.likelihood, self.task)
            description.write(folder)
            tensors = State(self.model, self.likelihood, self.prior, {}, weights_model=self.model).tensors()
            CheckpointWriter(folder, description.run).write(Checkpoint(tensors, len(self.history), self.history))
            write_result(folder, self, description.run)
            if posterior:
                write_posterior(folder, description.run, self._curvature())

    def save_posterior(self, folder: str | Path) -> int:
        """Write the posterior beside the checkpoint of this run, and return the bytes that it takes.

        Args:
            folder: where the run was trained or saved.
        """
        folder = Path(folder)
        with locked(folder):
            return write_posterior(folder, read_description(folder).run, self._curvature())
