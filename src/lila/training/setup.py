"""What a run is made of before its first epoch: the state, the evidence, and the optimiser of the hyperparameters."""

from dataclasses import replace
from math import ceil

import torch
from torch import nn

from lila._util.processor import multiplies_bfloat16
from lila._util.ranks import ALONE, Ranks
from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.curvature import UnknownName
from lila.curvature.audit import freeze_unknown
from lila.data.examples import Data, Examples
from lila.errors import ArgumentError
from lila.laplace.checks import check_inputs
from lila.laplace.evidence import Evidence
from lila.laplace.passes import few_examples
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior
from lila.training.budget import check_given_microbatch, choose_microbatch
from lila.training.choices import ArithmeticName, AveragesName, PassesName
from lila.training.hyper import HyperOptimiser
from lila.training.methods import LearnedBy
from lila.training.own_loop import hyper_step_arguments
from lila.training.settings import ResolvedSettings
from lila.training.state import State
from lila.training.weights_optimiser import NOT_OWN, OwnOptimisation


def new_state(
    net: nn.Module,
    augmentation: Augmentation | None,
    likelihood: Likelihood,
    settings: ResolvedSettings,
    data: Data,
    *,
    own: OwnOptimisation = NOT_OWN,
) -> State:
    """Make the state before the first epoch.

    Args:
        net: the network.
        augmentation: the family of transformations; None for a plain network.
        likelihood: of the targets.
        settings: how to train.
        data: the training data.
        own: makes the optimiser of the weights and its schedule, where the settings do not name them.
    """
    own.check(settings)
    procedure = settings.procedure
    plain = augmentation is None or not procedure.invariant
    like = next(net.parameters())
    chosen = Compose() if plain or augmentation is None else augmentation.to(like.device, like.dtype)
    if procedure.eta is LearnedBy.NOTHING and chosen.ranges and not any(chosen.ranges.values()):
        raise ArgumentError(
            f"The method {settings.method!r} does not learn its ranges, and all of them are zero: give the "
            "augmentation ranges to start from, and to stay at (init=...)."
        )
    model = InvariantModel(net, chosen, 1 if plain else settings.samples, settings.noise)
    model = model.in_fast_layout(next(Examples(data, like.device).batches(1)).x)
    precision = settings.weight_decay * len(Examples(data)) if procedure.decays_weights else settings.precision
    prior = GaussianPrior(net, settings.prior, precision, mean=settings.prior_mean)
    batches = batches_per_epoch(settings, data)
    return State.fresh(model, likelihood.to(like.device, like.dtype), prior, settings, batches=batches, own=own)


def batches_per_epoch(settings: ResolvedSettings, data: Data) -> int:
    """Return the number of batches of an epoch."""
    return ceil(len(Examples(data)) / settings.batch_size)


def freeze_as_asked(net: nn.Module, settings: ResolvedSettings, data: Data) -> None:
    """Freeze the parameters that have no curvature rule, if the settings ask for it."""
    if settings.unknown == UnknownName.FREEZE:
        freeze_unknown(net, few_examples(Examples(data, next(net.parameters()).device)).x)


def settled_arithmetic(settings: ResolvedSettings, device: torch.device, ranks: Ranks) -> str:
    """Return the arithmetic that was given; for "auto", mixed if the device of every process gains by it."""
    if settings.arithmetic != ArithmeticName.AUTO:
        return settings.arithmetic
    gains = all(ranks.gather(multiplies_bfloat16(device)))
    return (ArithmeticName.MIXED if gains else ArithmeticName.FULL).value


def settled_microbatch(state: State, settings: ResolvedSettings, data: Data, ranks: Ranks) -> int:
    """Return the microbatch that was given, or the largest that fits into the memory of every process.

    It is chosen once and written down: a run that goes on elsewhere must not choose differently.

    Raises:
        MemoryBudgetError: the views of one example, or of the microbatch that was given, do not fit.
    """
    chosen, device = settings.microbatch, next(state.model.parameters()).device
    with ranks.together(device):
        check_inputs(state.model, next(Examples(data, device).batches(1)).x)
        evidence = make_evidence(state, replace(settings, microbatch=chosen or 1), data)
        if chosen is None:
            chosen = choose_microbatch(evidence, data, settings)
        else:
            check_given_microbatch(evidence, data, settings)
    return min(ranks.gather(chosen))


def make_evidence(
    state: State, settings: ResolvedSettings, data: Data, ranks: Ranks = ALONE, *, at_least: int = 1
) -> Evidence:
    """Make the evidence that the settings ask for, with at least this many probes in its estimate."""
    assert settings.microbatch is not None, "chosen before training"
    probes, gradient_probes = settings.probe_counts(len(Examples(data)))
    probes = None if probes is None else max(probes, at_least)
    return Evidence(
        state.model,
        state.likelihood,
        state.prior,
        structure=settings.structure,
        curvature=settings.curvature,
        probes=probes,
        gradient_probes=gradient_probes,
        microbatch=settings.microbatch,
        layers=settings.procedure.layers,
        average=settings.procedure.average,
        ranks=ranks,
        unbiased=settings.averages == AveragesName.UNBIASED,
    )


def make_hyper_optimiser(state: State, settings: ResolvedSettings, data: Data, ranks: Ranks) -> HyperOptimiser | None:
    """Make what learns by the evidence while the weights are trained; None if the settings ask for nothing of that."""
    by_evidence = LearnedBy.EVIDENCE in (settings.procedure.eta, settings.procedure.prior)
    if not by_evidence or settings.passes != PassesName.RUNNING:
        return None
    examples = Examples(data, next(state.model.parameters()).device)
    few, batches = few_examples(examples), batches_per_epoch(settings, data)
    return HyperOptimiser(
        make_evidence(state, settings, data, ranks),
        len(examples),
        settings.epochs * batches,
        (few.x, few.y),
        batch_size=settings.batch_size,
        learn_ranges=settings.procedure.eta is LearnedBy.EVIDENCE,
        learn_prior=settings.procedure.prior is LearnedBy.EVIDENCE,
        **hyper_step_arguments(settings, batches),
    )
