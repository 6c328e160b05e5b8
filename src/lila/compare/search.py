"""Ranges by a search on held-out data.

Cubuk, Zoph, Mané, Vasudevan and Le, "AutoAugment: Learning Augmentation Policies from Data", CVPR 2019 (arXiv
1805.09501), search for an augmentation policy by training a network for each proposal and scoring it on held-out data.
Here a policy is the range of each generator, with the prior precision; proposals are Optuna's (a tree-structured Parzen
estimator), and a trial that is behind the median of the others at the same epoch is stopped. A network that is trained
on all data with the best policy concludes the search. All of it takes ten times lila's time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lila.compare.epochs import epochs_of_weights, start_weights
from lila.compare.system import Conditions, Found, Pair, Stopwatch
from lila.errors import LilaError
from lila.model.invariant import InvariantModel

if TYPE_CHECKING:
    import optuna

_TIMES_LILA = 10.0
_LARGEST = {"rotation": 3.141592653589793}  # the other ranges end at 1: half an image, or a factor of e
_LEAST_SHARE = 0.01  # of the largest range, the smallest that 1 / eta can propose
_PRECISIONS = (0.01, 100.0)
_REPORTS = 8  # how often a trial may be stopped


def propose(trial: "optuna.Trial", names: tuple[str, ...], *, inverse: bool) -> list[float]:
    """Let Optuna propose ranges: uniform in the range, or, if ranges are written as 1 / eta, uniform in eta."""
    ranges = []
    for name in names:
        largest = _LARGEST.get(name, 1.0)
        if inverse:
            ranges.append(1 / trial.suggest_float(name, 1 / largest, 1 / (_LEAST_SHARE * largest)))
        else:
            ranges.append(trial.suggest_float(name, 0.0, largest))
    return ranges


def train_policy(
    conditions: Conditions,
    train: Pair,
    ranges: list[float],
    precision: float,
    stops: Callable[[int, InvariantModel], bool] = lambda epoch, model: False,
) -> InvariantModel:
    """Train a network with ranges that are given.

    Args:
        conditions: what all systems share.
        train: the data that it is trained on.
        ranges: of the generators.
        precision: of the prior.
        stops: is asked after each epoch whether to stop there.
    """
    augmentation = conditions.changed(inverse=False).augmentation(ranges)
    state, settings = start_weights(conditions, augmentation, train, method="fixed", precision=precision)
    for epoch in epochs_of_weights(state, settings, train):
        if stops(epoch, state.model):
            break
    return state.model


class Search:
    """A search that goes on until its time is over.

    Args:
        conditions: what all systems share.
        study: Optuna's study, which maximises.
        names: the names of the ranges.
    """

    def __init__(self, conditions: Conditions, study: "optuna.Study", names: tuple[str, ...]) -> None:
        self.conditions, self.study, self.names = conditions, study, names
        self.train, self.held_out = conditions.held_out()
        self.stopped = 0

    def trial(self) -> None:
        """Make one trial: its value is the log-likelihood of the held-out data."""
        import optuna

        trial, every = self.study.ask(), max(self.conditions.epochs // _REPORTS, 1)
        ranges = propose(trial, self.names, inverse=self.conditions.inverse)
        precision = trial.suggest_float("precision", *_PRECISIONS, log=True)
        pruned = False

        def stops(epoch: int, model: InvariantModel) -> bool:
            nonlocal pruned
            if (epoch + 1) % every or epoch + 1 == self.conditions.epochs:
                return False
            trial.report(self._score(model), epoch)
            pruned = trial.should_prune()
            return pruned

        model = train_policy(self.conditions, self.train, ranges, precision, stops)
        if pruned:
            self.stopped += 1
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(trial, self._score(model))

    def _score(self, model: InvariantModel) -> float:
        return self.conditions.scores(model, self.held_out)["log_likelihood"]

    def best(self) -> tuple[list[float], float]:
        """Return the ranges and the precision of the best trial."""
        found = self.study.best_params
        values = [found[name] for name in self.names]
        return [1 / value for value in values] if self.conditions.inverse else values, found["precision"]


def run_search(conditions: Conditions) -> Found:
    """Search for ten times lila's time, with the final training in it."""
    try:
        import optuna
    except ImportError as error:
        raise LilaError("The search needs Optuna: pip install 'lila-torch[compare]'.") from error
    assert conditions.lila_seconds is not None, "lila runs first"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=conditions.seed)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    search, budget, watch = Search(conditions, study, conditions.augmentation().names), _TIMES_LILA, Stopwatch()
    longest = 0.0  # of a trial; the final training takes about as long for each of its examples
    while watch.now + longest / (1 - conditions.validation_share) < budget * conditions.lila_seconds:
        before = watch.now
        search.trial()
        longest = max(longest, watch.now - before)
    ranges, precision = search.best()
    model = train_policy(conditions, conditions.train, ranges, precision)
    watch.lap()
    scores = conditions.scores(model)
    details = {"trials": len(study.trials), "stopped trials": search.stopped, "precision": precision}
    found = dict(zip(search.names, ranges, strict=True))
    return Found(scores["accuracy"], scores["log_likelihood"], watch.seconds, found, details)
