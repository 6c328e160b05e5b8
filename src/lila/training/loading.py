"""Read a finished run from its folder."""

from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from lila.augment.base import Augmentation
from lila.curvature import UnknownName
from lila.curvature.audit import freeze_unknown
from lila.errors import ArgumentError, CheckpointError
from lila.laplace.evidence import Evidence
from lila.laplace.terms import Estimate, Terms
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior
from lila.model.statistics import freeze_statistics
from lila.training.architecture import Description, build, build_like, count_outputs
from lila.training.checkpoint import CHECKPOINT, RUN, read_checkpoint
from lila.training.choices import AveragesName
from lila.training.description import read_description
from lila.training.optimisers import without_prefix
from lila.training.posterior_file import POSTERIOR, read_posterior
from lila.training.result import read_result
from lila.training.run import Run
from lila.training.settings import ResolvedSettings
from lila.training.state import State

M = TypeVar("M", bound=nn.Module)


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
        class_names=result.class_names,
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
