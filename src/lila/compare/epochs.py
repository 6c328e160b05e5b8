"""The loops of systems that `lila.fit` does not have; the weights train in them as they do in `fit`.

`epochs_of_weights` gives the same epochs: of the same batches, views and learning rates. `train_by` adds steps of the
hyperparameters: after each epoch from the burn-in on, a system gives the gradient of its objective in eta and in the
prior's log-precisions several times, and Adam takes a step for each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation
from lila.augment.noise import Draw
from lila.compare.system import Conditions, Found, Pair, Stopwatch
from lila.data.examples import Examples
from lila.model.likelihood import Categorical
from lila.training.optimisers import cosine
from lila.training.settings import ResolvedSettings, Settings
from lila.training.setup import new_state
from lila.training.state import State
from lila.training.steps import train_epoch

_BURN_IN = 0.15  # the share of the epochs before the ranges move
_RATE, _RATE_END = 0.05, 0.001  # of eta, as in `fit` where hyper-steps follow an epoch
_PRIOR_RATE = 0.05  # of the log-precisions, likewise


def start_weights(
    conditions: Conditions, augmentation: Augmentation, train: Pair, **changes: Any
) -> tuple[State, ResolvedSettings]:
    """Make the state before the first epoch, and the settings of its epochs.

    Args:
        conditions: what all systems share.
        augmentation: of the network.
        train: the data that the weights are trained on.
        **changes: settings of `fit` that differ from those that all share.
    """
    settings = Settings(**conditions.settings(passes="exact", burn_in=0, **changes)).resolved(len(train[0]))
    return new_state(conditions.network(), augmentation, Categorical(), settings, train), settings


def epochs_of_weights(state: State, settings: ResolvedSettings, train: Pair) -> Iterator[int]:
    """Train the weights, and yield the number of each epoch, from 0, when it is done."""
    examples = Examples(train)
    for epoch in range(settings.epochs):
        state.set_learning_rates(settings, epoch / max(settings.epochs - 1, 1))
        train_epoch(state, examples, settings, Draw(settings.seed, epoch))
        state.check_finite()
        yield epoch


@dataclass(frozen=True)
class Moment:
    """Where a system is asked for a gradient.

    Attributes:
        state: the network, the augmentation, the prior and the likelihood.
        train: the data that the weights are trained on.
        draw: the noise of this step.
        learned: the hyperparameters: eta, and the prior's log-precisions.
    """

    state: State
    train: Pair
    draw: Draw
    learned: tuple[nn.Parameter, ...]


Gradient = Callable[[Moment], Sequence[Tensor]]
"""Returns the gradient, in each of the hyperparameters, of what is to become small."""


def train_by(conditions: Conditions, gradient: Gradient, train: Pair, *, steps_per_epoch: int) -> Found:
    """Train the weights, and learn ranges and prior by a gradient of a system's own.

    Args:
        conditions: what all systems share.
        gradient: the gradient of the system's objective.
        train: the data that the weights are trained on.
        steps_per_epoch: how many steps of the hyperparameters follow an epoch.
    """
    watch = Stopwatch()
    augmentation = conditions.augmentation()
    state, settings = start_weights(conditions, augmentation, train)
    ranges, precisions = [*augmentation.parameters()], [*state.prior.parameters()]
    groups: list[dict[str, Any]] = [{"params": ranges}, {"params": precisions, "lr": _PRIOR_RATE}]
    optimiser = torch.optim.Adam(groups, lr=_RATE)
    learned, burn_in = (*ranges, *precisions), ceil(_BURN_IN * conditions.epochs)
    for epoch in epochs_of_weights(state, settings, train):
        if epoch < burn_in:
            continue
        progress = (epoch - burn_in) / max(conditions.epochs - 1 - burn_in, 1)
        optimiser.param_groups[0]["lr"] = conditions.eta_rate(cosine(_RATE, _RATE_END, progress))
        state.track("eta", "hyper")
        for step in range(steps_per_epoch):
            draw = Draw(conditions.seed, conditions.epochs + epoch * steps_per_epoch + step)
            gradients = gradient(Moment(state, train, draw, learned))
            for parameter, grad in zip(learned, gradients, strict=True):
                parameter.grad = grad
            optimiser.step()
            optimiser.zero_grad()
            augmentation.saturate_()
    watch.lap()
    scores = conditions.scores(state.model)
    details = {
        "hyper_steps": steps_per_epoch * (conditions.epochs - burn_in),
        "precisions": {name: float(delta.detach()) for name, delta in state.prior.by_group().items()},
    }
    return Found(scores["accuracy"], scores["log_likelihood"], watch.seconds, dict(augmentation.ranges), details)
