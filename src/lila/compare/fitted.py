"""The systems that `lila.fit` has: lila itself, and the methods that share its loop."""

from typing import Any

from lila.compare.system import Conditions, Found, Stopwatch
from lila.training.fit import fit

_RUNNING_RATE = 0.02  # of eta, while the weights are trained: the default of `fit`
_EXACT: dict[str, Any] = {"passes": "exact", "eta_lr": 0.25, "eta_lr_end": 0.005, "hyper_every": 2}
"""Passes over all data after every second epoch: as these steps are few, they are larger than those of `fit`."""


def run_fit(conditions: Conditions, *, method: str = "lila", **changes: Any) -> Found:
    """Train by a method of `fit`.

    Args:
        conditions: what all systems share.
        method: of `fit`.
        **changes: further settings of `fit`.
    """
    rates = {"eta_lr": _RUNNING_RATE, "eta_lr_end": 0.05 * _RUNNING_RATE} | changes
    rates |= {name: conditions.eta_rate(rates[name]) for name in ("eta_lr", "eta_lr_end")}
    init = [*conditions.truth.values()] if method.startswith("fixed") else None
    net, augmentation, watch = conditions.network(), conditions.augmentation(init), Stopwatch()
    settings = conditions.settings(method=method, **rates)
    options: dict[str, Any] = {"test": conditions.test, "callbacks": [watch.lap], "progress": "silent"}
    run = fit(net, conditions.train, augmentation, **options, **settings)
    assert run.test is not None
    steps = sum(record.hyper_steps for record in run.history)
    details = {"evidence": run.evidence.value, "hyper_steps": steps}
    return Found(run.test["accuracy"], run.test["log_likelihood"], watch.seconds, dict(run.ranges) or None, details)


def run_exact(conditions: Conditions) -> Found:
    """Train by lila with passes over all data and all columns, as the paper does."""
    return run_fit(conditions, **_EXACT, burn_in=conditions.epochs // 5)
