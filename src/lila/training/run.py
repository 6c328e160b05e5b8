"""What a training run leaves: the invariant network, what it learned, and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar, overload

import torch
from torch import nn

from lila.augment.base import Augmentation, InputFormat
from lila.augment.pipelines import LearnedTransform, native_transform
from lila.curvature import Structure, UnknownName
from lila.curvature.audit import freeze_unknown
from lila.errors import ArgumentError, CheckpointError
from lila.laplace.evidence import Evidence
from lila.laplace.posterior import Posterior
from lila.laplace.terms import Estimate, Terms
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.metrics import CalibrationBin
from lila.model.prior import GaussianPrior
from lila.model.statistics import freeze_statistics
from lila.training.architecture import Description, build, build_like, count_outputs
from lila.training.baselines import NO_BASELINES, Baselines
from lila.training.checkpoint import (
    CHECKPOINT,
    RUN,
    Checkpoint,
    CheckpointWriter,
    read_checkpoint,
)
from lila.training.choices import AveragesName
from lila.training.description import RunDescription, TaskDescription, read_description
from lila.training.history import EpochRecord
from lila.training.lock import locked
from lila.training.optimisers import without_prefix
from lila.training.posterior_file import POSTERIOR, read_posterior, write_posterior
from lila.training.range_errors import RangeErrors
from lila.training.range_table import range_table
from lila.training.result import read_result, write_result
from lila.training.settings import ResolvedSettings
from lila.training.state import State
from lila.training.verdict import Verdict, judge

M = TypeVar("M", bound=nn.Module)

BAR = 24
"""Characters of the longest bar."""
_WIDTH = 100  # characters of a line of text


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
    task: TaskDescription | None = None
    range_errors: RangeErrors | None = None

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, if `lila train` made the run."""
        return None if self.task is None else tuple(self.task.classes)

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
        lines = [f"{self.settings.method}, {len(self.history)} epochs", *self._range_lines()]
        lines += [f"  {coupling.text()}" for coupling in self.model.augmentation.couplings()]
        e = self.evidence
        lines.append(f"  {e.per_example(self.examples)}")
        lines.append(
            f"    for all {self.examples:,}: {e.value:.1f} = {e.log_likelihood:.1f} log-likelihood "
            f"{e.weight_penalty:+.1f} weight penalty {e.occam_factor:+.1f} Occam factor"
        )
        if self.test is not None:
            lines.append(f"  test {_listed_scores(self.test)}")
        for name, worth in self.baselines.by_name().items():
            on_test = "" if worth.test is None else f", test {_listed_scores(worth.test)}"
            lines.append(f"  {name}: evidence {worth.evidence:.1f} nats{on_test}")
        if self.verdict.doubts:
            lines += ["", fill(self.verdict.text(), _WIDTH, initial_indent="  ", subsequent_indent="  ")]
        return "\n".join(lines)

    def _range_lines(self) -> list[str]:
        """Return the table of the ranges: a column for each thing that is known of them, and what it means."""
        table = range_table(self.model.augmentation, self.shape, self.history, self.range_errors)
        columns = [["", *(row.name for row in table.rows)], ["range", *(row.text for row in table.rows)]]
        for title, texts in (("error", [r.error for r in table.rows]), ("last epochs", [r.spread for r in table.rows])):
            if table.rows and None not in texts:
                columns.append([title, *map(str, texts)])
        columns.append(["", *(bar(row.share) for row in table.rows)])
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True) if table.rows else ()
        lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
        notes = [fill(f"({note})", _WIDTH, initial_indent="  ", subsequent_indent="   ") for note in table.notes]
        return [f"  {line}".rstrip() for line in lines] + notes

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
                "--save-posterior`), so it does not hold the curvature. Estimate it again from the training data: "
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


def load(
    folder: str | Path,
    net: nn.Module | None = None,
    augmentation: Augmentation | None = None,
    likelihood: Likelihood | None = None,
) -> Run:
    """Read a finished run. Nothing that its folder names is imported or called, so it may come from a stranger.

    Args:
        folder: where it was saved, or trained.
        net: a network of the same architecture, needed if it is not made of layers of torch.nn in `nn.Sequential`.
        augmentation: an augmentation of the same family, needed if the family is not registered.
        likelihood: likewise.
    """
    folder = Path(folder)
    description = read_description(folder)
    result = read_result(folder, description)
    settings, parts, task = description.settings, description.architecture, description.task
    if task is not None and result.shape != task.shape:
        raise CheckpointError(
            f"{folder}: the inputs have shape {result.shape} in result.json, but {task.shape} in {RUN}."
        )
    checkpoint = read_checkpoint(folder, description.run, epochs=settings.epochs)
    if not checkpoint.history:
        raise CheckpointError(f"{folder / CHECKPOINT} is of epoch 0, before which nothing was learned.")
    if net is None:
        place = f"{folder / RUN}: architecture.net"
        _require(parts.net, "net")
        net = build_like(parts.net, without_prefix(checkpoint.tensors, "net."), place)
        freeze_statistics(net.eval())  # as in training, where neither dropout nor statistics of a batch are allowed
        count_outputs(parts.net, result.shape, place)
    augmentation = augmentation or _built(parts.augmentation, "augmentation", Augmentation, folder)  # type: ignore[type-abstract]
    likelihood = likelihood or _built(parts.likelihood, "likelihood", Likelihood, folder)  # type: ignore[type-abstract]
    if checkpoint.history[0].ranges.keys() != augmentation.ranges.keys():  # those of all epochs are alike
        raise CheckpointError(f"{folder}: the ranges in history.jsonl are not those of the run's augmentation.")
    if result.range_errors is not None and result.range_errors.keys() != augmentation.ranges.keys():
        raise CheckpointError(f"{folder}: range_errors in result.json are not of the ranges of the run's augmentation.")
    dtype = next((t.dtype for name, t in checkpoint.tensors.items() if name.startswith("prior.")), torch.float32)
    if not dtype.is_floating_point:
        raise CheckpointError(f"{folder / CHECKPOINT} is damaged: its prior precisions have type {dtype}.")
    model = InvariantModel(net, augmentation, parts.samples, settings.noise).to(dtype)
    if settings.unknown == UnknownName.FREEZE:
        freeze_unknown(model.net, torch.zeros(1, *result.shape, dtype=dtype))
    prior = GaussianPrior(net, settings.prior, mean=settings.prior_mean)
    state = State(model, likelihood.to(dtype), prior, {}, weights_model=model)
    state.load_tensors(checkpoint.tensors, folder / CHECKPOINT)
    return Run(
        settings=settings,
        model=model,
        likelihood=likelihood,
        prior=state.prior,
        history=checkpoint.history,
        evidence=_with_curvature(result.evidence, state, settings, description.run, folder),
        test=result.test,
        confusion=result.confusion,
        calibration=result.calibration,
        shape=result.shape,
        baselines=result.baselines,
        never_predicted=result.never_predicted,
        examples=result.examples,
        task=task,
        range_errors=result.range_errors,
    )


def _with_curvature(terms: Terms, state: State, settings: ResolvedSettings, identity: str, folder: Path) -> Terms:
    """Return the terms of the evidence with the curvature, if it was saved."""
    if not (folder / POSTERIOR).exists():
        return terms
    evidence = Evidence(
        state.model,
        state.likelihood,
        state.prior,
        structure=settings.structure,
        curvature=settings.curvature,
        layers=settings.procedure.layers,
        average=settings.procedure.average,
        unbiased=settings.averages == AveragesName.UNBIASED,
    )
    curvature = read_posterior(folder, identity, evidence.no_curvature())
    assert curvature is not None
    return Estimate(
        log_likelihood=terms.log_likelihood,
        weight_penalty=terms.weight_penalty,
        occam_factor=terms.occam_factor,
        standard_error=terms.standard_error,
        curvature=curvature,
        draw=None,
    )


def _built(description: Description | None, name: str, kind: type[M], folder: Path) -> M:
    """Make an augmentation or a likelihood; those of lila are small whatever their description says."""
    _require(description, name)
    place = f"{folder / RUN}: architecture.{name}"
    made = build(description, place, kind)
    assert isinstance(made, kind)
    return made


def _require(description: Description | None, name: str) -> None:
    if description is None:
        raise ArgumentError(
            f"The {name} of this run is of your own making and cannot be built from its description. Make it as it was "
            f"made for training, and pass it: lila.load(folder, {name}=...)."
        )


def _listed_scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores.items())


def bar(share: float) -> str:
    """Return a share of 1 as a bar of blocks, to an eighth of a block."""
    eighths = round(share * BAR * 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
