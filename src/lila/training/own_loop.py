"""What a `HyperOptimiser` has to know of a training loop that lila does not run, read from its DataLoader."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from lila._util.arguments import check_names
from lila._util.choices import check_count
from lila._util.ranks import Ranks
from lila._util.spread import spread_indices
from lila.augment.base import Augmentation
from lila.curvature.finding import check_examples_apart
from lila.data.fields import Fields, read_pair
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.laplace.passes import AUDIT_EXAMPLES
from lila.model.checks import check_augmentation, check_likelihood, check_network
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical, Likelihood
from lila.model.prior import GaussianPrior
from lila.training.choices import AveragesName
from lila.training.settings import ResolvedSettings, Settings

Loader = DataLoader[Any] | Fields

_BY_HAND = "Make a lila.HyperOptimiser from an Evidence and the numbers of examples and batches."
_OF_HYPER_STEPS = (
    "samples", "weight_samples", "noise", "averages", "prior", "prior_mean", "precision", "structure", "curvature",
    "probes", "gradient_probes", "microbatch", "hyper_batch", "hyper_every", "burn_in", "eta_lr", "eta_lr_end",
    "hyper_lr", "unknown", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """The sizes of a training loop, and a few examples of it.

    Attributes:
        examples: N, the number of training examples.
        steps: the number of batches of the whole run.
        batch_size: the examples of a batch.
        few: inputs and targets of some examples, on which the network is audited.
    """

    examples: int
    steps: int
    batch_size: int
    few: tuple[Tensor, Tensor]


def describe_loop(
    loader: Loader,
    epochs: int,
    device: torch.device,
    *,
    batches: int | None = None,
    few: tuple[Tensor, Tensor] | None = None,
) -> Loop:
    """Return the sizes of a loop that goes over a DataLoader some times, and a few of its examples.

    Args:
        loader: the DataLoader, inside of `Fields` if its batches are not pairs.
        epochs: how often the loop goes over it.
        device: the device to which the few examples are moved.
        batches: how many batches the loop takes in an epoch; None for all.
        few: inputs and targets of a few examples; None to read them from the loader.

    Raises:
        ArgumentError: it is no DataLoader, or its examples are not counted.
    """
    check_count("epochs", epochs)
    inner = loader.data if isinstance(loader, Fields) else loader
    if not isinstance(inner, DataLoader):
        raise ArgumentError(
            f"The loader must be a torch.utils.data.DataLoader, or lila.Fields of one, not a {type(inner).__name__}. "
            f"{_BY_HAND}"
        )
    if inner.batch_size is None and inner.batch_sampler is None:
        raise ArgumentError(f"The DataLoader has batch_size=None, so that its examples cannot be counted. {_BY_HAND}")
    try:
        examples, all_batches, dataset = len(inner.sampler), len(inner), inner.dataset  # type: ignore[arg-type]
        some = [] if few is not None else spread_indices(len(dataset), AUDIT_EXAMPLES).tolist()  # type: ignore[arg-type]
        items = [dataset[i] for i in some]
    except TypeError as error:  # of an IterableDataset, or of a sampler without a length
        raise ArgumentError(
            f"The examples of this DataLoader cannot be counted, or not be read by index: {error}. {_BY_HAND}"
        ) from error
    if not examples or not all_batches:
        raise ArgumentError("The DataLoader gives no batch.")
    if few is None:
        x, y, _ = (loader.read if isinstance(loader, Fields) else read_pair)(inner.collate_fn(items))
    else:
        x, y = few
    steps, batch_size = epochs * (batches or all_batches), inner.batch_size or ceil(examples / all_batches)
    return Loop(examples, steps, batch_size, (x.to(device), y.to(device)))


def _warn_of_order(loader: Any) -> None:
    """Warn if a DataLoader of several batches is known not to shuffle; samplers of the user's own may do anything."""
    batches, sampler = loader.batch_sampler, loader.sampler
    made_by_loader = type(batches) is BatchSampler and batches.sampler is sampler
    if made_by_loader and type(sampler) is SequentialSampler and len(batches) > 1:
        warnings.warn(
            "The DataLoader gives its examples in the order of the data set, but those of a hyper-step must stand for "
            "all: make it with shuffle=True.",
            stacklevel=4,  # the line that calls HyperOptimiser.for_loader
        )


def loop_arguments(
    net: nn.Module,
    augmentation: Augmentation,
    loader: Loader,
    epochs: int,
    *,
    likelihood: Likelihood | None,
    batches: int | None,
    few: tuple[Tensor, Tensor] | None,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a `HyperOptimiser` for a loop; see `HyperOptimiser.for_loader`."""
    check_network(net)
    check_examples_apart(net)
    loop = describe_loop(loader, epochs, next(net.parameters()).device, batches=batches, few=few)
    settings = _loop_settings(given, loop)
    evidence = _evidence(net, augmentation, loop, likelihood=likelihood, settings=settings)
    _warn_of_order(loader.data if isinstance(loader, Fields) else loader)
    return hyper_step_arguments(settings, loop.steps // epochs) | {
        "evidence": evidence,
        "examples": loop.examples,
        "steps": loop.steps,
        "few": loop.few,
        "batch_size": loop.batch_size,
    }


def hyper_step_arguments(settings: ResolvedSettings, batches: int) -> dict[str, Any]:
    """Return the arguments of a `HyperOptimiser` that settings give, for a number of batches in an epoch."""
    return {
        "hyper_batch": settings.hyper_batch,
        "every": settings.hyper_every,
        "burn_in": None if settings.burn_in is None else settings.burn_in * batches,
        "eta_lr": settings.eta_lr,
        "eta_lr_end": settings.eta_lr_end,
        "hyper_lr": settings.hyper_lr,
        "weight_samples": settings.weight_samples,
        "seed": settings.seed,
    }


def _loop_settings(given: Mapping[str, Any], loop: Loop) -> ResolvedSettings:
    """Return the settings of a loop; what the loop itself decides cannot be given.

    Raises:
        ArgumentError: a name is no setting, or is one of what the loop decides.
    """
    known = [field.name for field in fields(Settings) if field.name in _OF_HYPER_STEPS]
    check_names(given, known, "In a loop of your own there is no setting", listed="Settings are")
    return Settings(**given).resolved(loop.examples)


def _evidence(
    net: nn.Module,
    augmentation: Augmentation,
    loop: Loop,
    *,
    likelihood: Likelihood | None,
    settings: ResolvedSettings,
) -> Evidence:
    """Make the evidence of a network for a loop, as `fit` makes it.

    Args:
        net: the network.
        augmentation: the family of transformations.
        loop: the loop.
        likelihood: of the targets; `Categorical()` if None.
        settings: the samples, noise, prior, structure, curvature, probes and microbatch.
    """
    if Ranks.here().count > 1:
        raise ArgumentError(
            "This process is one of several. In a loop of several processes make the Evidence with ranks=Ranks.here(), "
            "and say in each step which share of the batch is this process's: see lila.HyperOptimiser."
        )
    check_augmentation(augmentation)
    likelihood = Categorical() if likelihood is None else likelihood
    check_likelihood(likelihood)
    like = next(net.parameters())
    model = InvariantModel(net, augmentation.to(like.device, like.dtype), settings.samples, settings.noise)
    probes, gradient_probes = settings.probe_counts(loop.examples)
    return Evidence(
        model.in_fast_layout(loop.few[0]),
        likelihood.to(like.device, like.dtype),
        GaussianPrior(net, settings.prior, settings.precision, mean=settings.prior_mean),
        structure=settings.structure,
        curvature=settings.curvature,
        probes=probes,
        gradient_probes=gradient_probes,
        microbatch=settings.microbatch or settings.hyper_batch,
        unbiased=settings.averages == AveragesName.UNBIASED,
        unknown=settings.unknown,
    )
