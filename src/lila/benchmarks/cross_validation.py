"""The cost of a search for the range of the rotation by cross-validation with Optuna, in runs of lila.

lila learns the range of the rotation in one run. A search proposes ranges; for each it trains networks on all folds but
one, and scores them on the fold that is left out. It ends with a network that is trained on all the data with the best
range. Two searches are reported, from the same proposals:

- "told when to stop": the search is told the accuracy that lila's range has by cross-validation, and stops at the first
  proposal that reaches it. Nobody tells a real user when to stop, so this is the least that a search can cost.
- "all trials": the search makes all `--trials` trials and takes the best, as a user does.

Luck decides how soon a good range is proposed, so the search is repeated with other seeds of its sampler. All networks
are trained with as many views per image in a step of the weights. The test images are used once, at the end. For a
search, the seconds of its epochs are counted, without the evidence that `fit` computes at their end; for lila,
everything is.

The prior differs too: lila learns its precisions by the evidence, and the search's networks keep a precision of 1
unless `--search-prior learned` lets each of them learn its own, which takes hyper-steps that are counted. To tell the
two effects apart, lila's range is also trained as the final network of a search is.

    python -m lila.benchmarks.cross_validation

Needs Optuna; `make bench-others` installs it and runs this.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import pi
from statistics import median
from typing import Any

import optuna
import torch
from torch import Tensor

import lila
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.whole_runs import decomposition_seconds

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Setup:
    """The data, and how networks are trained on it.

    Attributes:
        task: the data with its shape and classes.
        epochs: the number of epochs of each training.
        batch_size: examples per step of the weights.
        seed: the seed of each training.
        folds: the number of folds.
        learn_prior: whether networks with a fixed range learn their prior precisions; otherwise these stay at 1.
    """

    task: lila.Task
    _: KW_ONLY
    epochs: int
    batch_size: int
    seed: int
    folds: int
    learn_prior: bool

    @property
    def data(self) -> Data:
        """All training images."""
        assert isinstance(self.task.train, tuple)
        return self.task.train

    @property
    def test(self) -> Data:
        """The test images."""
        assert isinstance(self.task.test, tuple)
        return self.task.test


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        rotation: the range of the rotation.
        accuracy: on the images that it was tested with.
        seconds: the time that counts for it.
        hyper_steps: the number of epochs with hyper-steps.
        parts: the shares of the time, by what it was spent on, where they were measured.
    """

    rotation: float
    accuracy: float
    seconds: float
    hyper_steps: int
    parts: Mapping[str, float] = field(default_factory=dict)


def train_learned(setup: Setup) -> Trained:
    """Train on all images and learn the range of the rotation; everything that `fit` does counts."""
    started = time.perf_counter()
    with decomposition_seconds() as decompositions:
        run = _fit(setup, setup.data, setup.test, lila.Affine2d(["rotation"]))
    seconds = time.perf_counter() - started
    weights, hyper = (sum(getattr(record.seconds, name) for record in run.history) for name in ("weights", "hyper"))
    spent = {
        "steps of the weights": weights,
        "hyper-steps": hyper - decompositions[0],
        "decompositions": decompositions[0],
        "start, final evidence and test": seconds - weights - hyper,
    }
    return replace(_trained(run, seconds), parts={name: value / seconds for name, value in spent.items()})


def train_fixed(setup: Setup, angle: float, data: Data, test: Data, *, learn_prior: bool) -> Trained:
    """Train with the range of the rotation held at an angle; the epochs count, with the hyper-steps of the prior."""
    settings: dict[str, Any] = {"method": "fixed"}
    if not learn_prior:  # no hyper-steps, but weights that train as they do in lila's run
        settings |= {"weight_samples": 2, "passes": "probed", "burn_in": setup.epochs}
    run = _fit(setup, data, test, lila.Affine2d(["rotation"], init=angle), **settings)
    counted = ("weights", "hyper") if learn_prior else ("weights",)
    return _trained(run, float(sum(getattr(record.seconds, name) for record in run.history for name in counted)))


def _fit(setup: Setup, data: Data, test: Data, augmentation: lila.Affine2d, **settings: Any) -> lila.Run:
    torch.manual_seed(setup.seed)
    net = lila.make_model("mlp", setup.task.shape, len(setup.task.classes))
    settings |= {"epochs": setup.epochs, "batch_size": setup.batch_size, "seed": setup.seed, "microbatch": 50}
    return lila.fit(net, data, augmentation, test=test, progress="silent", **settings)


def _trained(run: lila.Run, seconds: float) -> Trained:
    assert run.test is not None
    hyper_steps = sum(record.evidence is not None for record in run.history)
    return Trained(run.model.augmentation.ranges["rotation"], run.test["accuracy"], seconds, hyper_steps)


def check(setup: Setup) -> None:
    """Check that a range which is fixed stays as it is, without hyper-steps, and that one which is learned moves."""
    quick = replace(setup, epochs=2)
    fixed = train_fixed(quick, 0.5, quick.data, quick.test, learn_prior=False)
    learned = _trained(_fit(quick, quick.data, quick.test, lila.Affine2d(["rotation"]), burn_in=1), 0.0)
    if fixed.hyper_steps or fixed.rotation != 0.5 or learned.rotation == 0:
        raise SystemExit(
            f"Nothing is timed: a range fixed at 0.5 is {fixed.rotation} after {fixed.hyper_steps} hyper-steps, and a "
            f"learned range has moved from 0 to {learned.rotation}."
        )


def cross_validated(setup: Setup, angle: float) -> tuple[float, float]:
    """Return the mean accuracy over the folds with a fixed range, and the seconds of all trainings."""
    x, y = setup.data
    fold_of = torch.arange(len(x)) % setup.folds
    trained = []
    for fold in range(setup.folds):
        kept, left_out = fold_of != fold, fold_of == fold
        data, test = (x[kept], y[kept]), (x[left_out], y[left_out])
        trained.append(train_fixed(setup, angle, data, test, learn_prior=setup.learn_prior))
    return sum(one.accuracy for one in trained) / setup.folds, sum(one.seconds for one in trained)


@dataclass(frozen=True)
class Trial:
    """A proposal of a search.

    Attributes:
        rotation: the proposed range.
        score: its accuracy by cross-validation.
        seconds: the time of its trainings.
    """

    rotation: float
    score: float
    seconds: float


def search(setup: Setup, trials: int, seed: int) -> list[Trial]:
    """Make all trials of a search; the seed is that of the sampler.

    A sampler proposes one range after the other, so that the first trials are those of a search that stops there.
    """
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    made: list[Trial] = []

    def objective(trial: optuna.Trial) -> float:
        rotation = trial.suggest_float("rotation", 0, pi)
        score, seconds = cross_validated(setup, rotation)
        made.append(Trial(rotation, score, seconds))
        return score

    study.optimize(objective, n_trials=trials)
    return made


def until_reached(trials: Sequence[Trial], goal: float) -> Sequence[Trial]:
    """Return the trials up to the first that reaches a goal; all if none does."""
    reached = [i for i, trial in enumerate(trials) if trial.score >= goal]
    return trials[: reached[0] + 1] if reached else trials


def conclude(setup: Setup, trials: Sequence[Trial], goal: float, finals: dict[float, Trained]) -> dict[str, Any]:
    """Train the final network of a search with the best of its trials, unless it is there, and describe the search."""
    best = max(trials, key=lambda trial: trial.score)
    if best.rotation not in finals:
        finals[best.rotation] = train_fixed(setup, best.rotation, setup.data, setup.test, learn_prior=setup.learn_prior)
    final = finals[best.rotation]
    return {
        "rotation": best.rotation,
        "cross-validated accuracy": best.score,
        "test accuracy": final.accuracy,
        "seconds": sum(trial.seconds for trial in trials) + final.seconds,
        "trials": len(trials),
        "as good as lila": best.score >= goal,
    }


def report(setup: Setup, trials: int, searches: int) -> dict[str, Any]:
    """Run lila and the searches, and return what is printed."""
    learned = train_learned(setup)
    goal, _ = cross_validated(setup, learned.rotation)  # not counted: lila does not need it
    retrained = train_fixed(setup, learned.rotation, setup.data, setup.test, learn_prior=False)
    found: dict[str, list[dict[str, Any]]] = {"told when to stop": [], "all trials": []}
    for seed in range(searches):
        made, finals = search(setup, trials, seed), dict[float, Trained]()
        found["told when to stop"].append(conclude(setup, until_reached(made, goal), goal, finals))
        found["all trials"].append(conclude(setup, made, goal, finals))
    ratios = {name: [one["seconds"] / learned.seconds for one in outcomes] for name, outcomes in found.items()}
    return {
        "lila": {
            "rotation": learned.rotation,
            "cross-validated accuracy": goal,
            "test accuracy": learned.accuracy,
            "test accuracy of its range with prior precision 1": retrained.accuracy,
            "seconds": learned.seconds,
            "shares of the time": learned.parts,
        },
        "searches": found,
        "time of a search / lila's": {
            name: {"median": median(values), "least": min(values), "most": max(values)}
            for name, values in ratios.items()
        },
    }


def main(given: Sequence[str] | None = None) -> None:
    """Check, measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--subset", type=int, default=600, metavar="N", help="training images [600]")
    parser.add_argument("--epochs", type=int, default=60, metavar="N", help="[60]")
    parser.add_argument("--batch-size", type=int, default=30, metavar="N", help="[30]")
    parser.add_argument("--folds", type=int, default=3, metavar="N", help="[3]")
    parser.add_argument("--trials", type=int, default=10, metavar="N", help="ranges that a search tries [10]")
    parser.add_argument("--searches", type=int, default=5, metavar="N", help="searches, each with its own seed [5]")
    prior = "prior precisions of the search's networks: fixed at 1, or learned by each of them [fixed]"
    parser.add_argument("--search-prior", choices=["fixed", "learned"], default="fixed", help=prior)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the data and the trainings [0]")
    arguments = start(parser, given)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    recipe = lila.Recipe("digits", transform="partially-rotated", subset=arguments.subset, seed=arguments.seed)
    setup = Setup(
        lila.load_data(recipe, in_memory=True),
        epochs=arguments.epochs,
        batch_size=arguments.batch_size,
        seed=arguments.seed,
        folds=arguments.folds,
        learn_prior=arguments.search_prior == "learned",
    )
    check(setup)
    print_result(arguments, report(setup, arguments.trials, arguments.searches))


if __name__ == "__main__":
    main()
