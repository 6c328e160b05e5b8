"""The evidence of a case of the gallery when its ranges are held, instead of learned.

The named ranges are held at multiples of those of the data, all others at zero, and the weights and the prior are
trained anew at each. The exact evidence of these runs tells what the evidence prefers, so a range that is not recovered
is either not preferred, or preferred and not found.

    python -m lila.benchmarks.held_ranges dimmed-digits --ranges brightness
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lila.augment import Augmentation
from lila.benchmarks.script import new_parser, print_result, start
from lila.errors import ArgumentError
from lila.laplace.evidence import Evidence
from lila.reproduce.gallery import CASES, Folders, Problem
from lila.training.fit import fit
from lila.training.run import Run


def set_ranges(augmentation: Augmentation, values: Mapping[str, float], *, held: bool = True) -> None:
    """Hold the ranges of a family at values, and those not named at zero; or let them be learned from there."""
    parameters = list(augmentation.parameters())
    if len(parameters) != 1:
        raise ArgumentError("The augmentation of this case is a sequence of families; only those of one can be held.")
    (eta,) = parameters
    with torch.no_grad():
        eta.copy_(torch.tensor([values.get(name, 0.0) for name in augmentation.ranges]))
    eta.requires_grad_(not held)


def run_at(problem: Problem, values: Mapping[str, float], *, held: bool = True, **given: Any) -> dict[str, Any]:
    """Train with ranges at values, and return the evidence, its terms and its gradient, per example, as JSON.

    Args:
        problem: the problem, whose augmentation is changed.
        values: the values of the ranges.
        held: whether the ranges stay there; if not, all of them are learned from there.
        **given: settings of the run that are not those of the problem.
    """
    set_ranges(problem.augmentation, values, held=held)
    settings: dict[str, Any] = {"progress": "silent", **problem.settings, **given}
    run = fit(problem.net, problem.train, problem.augmentation, test=problem.test, final_evidence="exact", **settings)
    assert run.test is not None
    terms = {name: value / run.examples for name, value in run.evidence.terms().items()}
    return {
        "settings": given,
        "held" if held else "started at": dict(values),
        "ranges": dict(run.ranges),
        "evidence": run.evidence.value / run.examples,
        "terms": terms,
        "gradient": _gradient(run, problem),
        "accuracy": run.test["accuracy"],
        "test log-likelihood": run.test["log_likelihood"],
    }


def _gradient(run: Run, problem: Problem) -> dict[str, float]:
    """Return the gradient of the exact evidence in each range, per example."""
    augmentation = run.model.augmentation
    (eta,) = augmentation.parameters()
    eta.requires_grad_(True)
    evidence = Evidence(run.model, run.likelihood, run.prior)
    gradient = evidence.gradient(problem.train, evidence.estimate(problem.train, audit=False))["augmentation.eta"]
    return dict(zip(augmentation.ranges, (gradient / run.examples).tolist(), strict=True))


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print the result as JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("case", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--ranges", metavar="NAMES", help="that are held, with commas [all that the data has]")
    parser.add_argument(
        "--multiples", default="0,0.5,1,1.5", metavar="X,...", help="of the ranges of the data [0,0.5,1,1.5]"
    )
    parser.add_argument("--learn", action="store_true", help="learn all ranges from there, instead of holding them")
    parser.add_argument("--weight-samples", type=int, metavar="N", help="views in a step of the weights [2]")
    parser.add_argument("--seeds", default="0", metavar="N,...", help="[0]")
    arguments = start(parser, words)
    runs = []
    for seed in map(int, arguments.seeds.split(",")):
        for multiple in map(float, arguments.multiples.split(",")):
            problem = CASES[arguments.case].make(seed, Folders())
            names = list(problem.truth) if arguments.ranges is None else arguments.ranges.split(",")
            given = {"seed": seed, "weight_samples": arguments.weight_samples}
            unknown = [name for name in names if name not in problem.truth]
            if unknown:
                parser.error(f"the data of {arguments.case} has no range {unknown[0]!r}, only {list(problem.truth)}")
            values = {name: multiple * problem.truth[name] for name in names}
            runs.append(run_at(problem, values, held=not arguments.learn, **given))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    print_result(arguments, {"runs": runs})


if __name__ == "__main__":
    main()
