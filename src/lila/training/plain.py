"""The same network without invariance, trained after a run so that the two can be compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from lila._util.ranks import Ranks
from lila.augment.base import Augmentation
from lila.data.examples import Data, Examples
from lila.training.baselines import PlainNetworkWorth
from lila.training.methods import MethodName
from lila.training.run import Run
from lila.training.scores import outputs_and_targets
from lila.training.settings import ResolvedSettings

FOLDER = "non-invariant"
"""The folder of the plain network inside of the run's."""

TrainPlain = Callable[[ResolvedSettings, Path | None], Run]
"""Trains the plain network with these settings in this folder, or goes on with it."""


def has_plain_counterpart(settings: ResolvedSettings, augmentation: Augmentation | None) -> bool:
    """Return whether a run is invariant, so that the same network without invariance is another one."""
    return augmentation is not None and settings.procedure.invariant


def with_plain_network(run: Run, data: Data, test: Data | None, train: TrainPlain, folder: Path | None) -> Run:
    """Train the same network without invariance, and return the run with what that is worth.

    Args:
        run: the finished run.
        data: the training data.
        test: the test data, if there is any.
        train: trains the plain network.
        folder: of the run, if it has one; the plain network has a folder in it, so that it can be resumed too.
    """
    settings = replace(run.settings, method=MethodName.NON_INVARIANT.value)
    plain = train(settings, None if folder is None else folder / FOLDER)
    gain, gain_error = (None, None) if test is None else _test_gain(run, plain, test)
    last, count = plain.history[-1], len(Examples(data))
    train_scores = {"log_likelihood": plain.evidence.log_likelihood / count}
    worth = PlainNetworkWorth(
        evidence=plain.evidence.value,
        train=train_scores if last.accuracy is None else {"accuracy": last.accuracy} | train_scores,
        test=plain.test,
        standard_error=plain.evidence.standard_error,
        test_gain=gain,
        test_gain_error=gain_error,
    )
    return replace(run, baselines=replace(run.baselines, non_invariant=worth))


@torch.no_grad()
def _test_gain(run: Run, plain: Run, test: Data) -> tuple[float, float]:
    """Return the mean of log p(y | run) - log p(y | plain) over the test examples, and its standard error."""
    batch, ranks = run.settings.microbatch or 1, Ranks.here()
    each = []
    for made in (run, plain):
        f, y = outputs_and_targets(made.model, made.likelihood, test, batch, ranks=ranks)
        each.append(made.likelihood.log_prob(f, y).double())
    difference = each[0] - each[1]
    error = difference.std() / len(difference) ** 0.5 if len(difference) > 1 else difference.abs().sum()
    return float(difference.mean()), float(error)
