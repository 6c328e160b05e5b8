"""What a user would do instead: search for the rotation range by cross-validation, to the same accuracy.

lila learns the range of the rotations in one run. Its accuracy by cross-validation (the network trained anew on the
other folds, with the learned range held fixed) is what the search has to reach: Optuna proposes ranges, each is trained
and scored on the same folds, and the search ends with the first that is at least as good, or after `--trials`. How soon
it comes is a matter of luck, so the search is repeated with other seeds of its sampler. Both end with a network trained
on all the data, with as many views per image in a step of the weights. The test images are looked at once, at the end.
Of the search only the seconds of its epochs are counted, none of the evidence that `fit` computes beside them; of lila
everything.

    make bench-others
"""

import argparse
import json
import time
from math import pi
from statistics import median
from typing import Any

import optuna
import torch
from torch import Tensor

import lila
from lila._util.memory import keep_heap
from lila.benchmarks import machine

Data = tuple[Tensor, Tensor]


def train(task: lila.Task, data: Data, test: Data, angle: float | None, settings: dict[str, Any]) -> lila.Run:
    """Train on data with the range of the rotations held at an angle, or learned."""
    torch.manual_seed(settings["seed"])
    net = lila.make_model("mlp", task.shape, len(task.classes))
    augmentation = lila.Affine2d(["rotation"], init=0.0 if angle is None else angle)
    if angle is not None:  # no hyper-steps: a range and the weights are all there is, which train as lila's do
        weights = {"weight_samples": 2, "batch_size": settings["batch_size"]}
        settings = settings | weights | {"method": "fixed", "passes": "probed", "burn_in": settings["epochs"]}
    return lila.fit(net, data, augmentation, test=test, progress="silent", microbatch=50, **settings)


def check(task: lila.Task, data: Data, test: Data, settings: dict[str, Any]) -> None:
    """That a range which is held fixed stays, without a hyper-step, and one that is to be learned moves."""
    quick = settings | {"epochs": 2, "burn_in": 1}
    fixed, learned = train(task, data, test, 0.5, quick), train(task, data, test, None, quick)
    stepped = any(record.evidence is not None for record in fixed.history)
    if stepped or fixed.ranges["rotation"] != 0.5 or learned.ranges["rotation"] == 0:
        raise SystemExit(f"Ranges are {fixed.ranges} (fixed at 0.5) and {learned.ranges} (learned): nothing is timed.")


def seconds_of_epochs(run: lila.Run) -> float:
    """Without hyper-steps and what comes before and after."""
    return float(sum(record.seconds.weights for record in run.history))


def accuracy(run: lila.Run) -> float:
    """On the data it was tested with."""
    assert run.test is not None
    return run.test["accuracy"]


def cross_validated(
    task: lila.Task, data: Data, angle: float, folds: int, settings: dict[str, Any]
) -> tuple[float, float]:
    """The mean accuracy over the folds with a fixed range, and the seconds it took."""
    parts = torch.arange(len(data[0])) % folds
    scores, seconds = [], 0.0
    for fold in range(folds):
        kept, left = parts != fold, parts == fold
        run = train(task, (data[0][kept], data[1][kept]), (data[0][left], data[1][left]), angle, settings)
        scores.append(accuracy(run))
        seconds += seconds_of_epochs(run)
    return sum(scores) / folds, seconds


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subset", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=30)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--searches", type=int, default=5, help="with as many seeds of the sampler")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    keep_heap()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    recipe = lila.Recipe("digits", transform="partially-rotated", subset=arguments.subset, seed=arguments.seed)
    task = lila.load_data(recipe, in_memory=True)
    assert isinstance(task.train, tuple)
    assert isinstance(task.test, tuple)
    data, test = task.train, task.test
    settings = {"epochs": arguments.epochs, "batch_size": arguments.batch_size, "seed": arguments.seed}

    check(task, data, test, settings)
    start = time.perf_counter()
    learned = train(task, data, test, None, settings)
    seconds_of_lila = time.perf_counter() - start
    angle = learned.model.augmentation.ranges["rotation"]
    goal, _ = cross_validated(task, data, angle, arguments.folds, settings)  # not counted: lila has no need of it

    searches = [search(task, data, test, goal, arguments, settings, seed) for seed in range(arguments.searches)]
    ratios = [found["seconds"] / seconds_of_lila for found in searches]
    result = {
        "settings": vars(arguments) | machine(),
        "lila": {
            "rotation": angle,
            "cross-validated accuracy": goal,
            "test accuracy": accuracy(learned),
            "seconds": seconds_of_lila,
        },
        "searches": searches,
        "time of a search by lila's": {"median": median(ratios), "least": min(ratios), "most": max(ratios)},
    }
    print(json.dumps(result, indent=2))


def search(
    task: lila.Task, data: Data, test: Data, goal: float, arguments: Any, settings: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Search for the range until one is as good by cross-validation as the goal; the sampler has a seed of its own."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: optuna.Trial) -> float:
        proposed = trial.suggest_float("rotation", 0, pi)
        score, seconds = cross_validated(task, data, proposed, arguments.folds, settings)
        trial.set_user_attr("seconds", seconds)
        return score

    def enough(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if study.best_value >= goal:
            study.stop()

    study.optimize(objective, n_trials=arguments.trials, callbacks=[enough])
    found = study.best_params["rotation"]
    searched = train(task, data, test, found, settings)
    return {
        "rotation": found,
        "cross-validated accuracy": study.best_value,
        "test accuracy": accuracy(searched),
        "seconds": sum(trial.user_attrs["seconds"] for trial in study.trials) + seconds_of_epochs(searched),
        "trials": len(study.trials),
        "as good as lila": study.best_value >= goal,
    }


if __name__ == "__main__":
    main()
