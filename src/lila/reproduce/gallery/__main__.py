"""Train the cases of the gallery and write its page.

Each run is kept in FOLDER/results/gallery as soon as it is finished, and is not trained again. FOLDER/gallery.md and
its pictures are written anew each time.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lila._util.memory import keep_heap
from lila.reproduce.gallery.cases import CASES
from lila.reproduce.gallery.page import draw_case, write_page
from lila.reproduce.gallery.problem import Folders, Problem
from lila.training.checkpoint import write_json
from lila.training.fit import fit


def learn(problem: Problem, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """Train one run, and return what it learned, as JSON."""
    settings: dict[str, Any] = {"seed": seed, "progress": "silent", **problem.settings}
    settings |= {} if epochs is None else {"epochs": epochs, "burn_in": 0}
    run = fit(problem.net, problem.train, problem.augmentation, test=problem.test, **settings)
    assert run.test is not None
    return {
        "seed": seed,
        "ranges": dict(run.ranges),
        "parameters": torch.cat([p.detach().flatten() for p in run.model.augmentation.parameters()]).tolist(),
        "readable": dict(run.model.augmentation.readable_ranges(run.shape)),
        "accuracy": run.test["accuracy"],
        "evidence": run.evidence.value / run.examples,
    }


def main(given: Sequence[str] | None = None) -> int:
    """Train what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m lila.reproduce.gallery", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} [all]")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each case [3]")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="FOLDER", help="[docs]")
    parser.add_argument(
        "--photographs", default="cifar10", metavar="DATA", help="a folder of images per class [cifar10]"
    )
    parser.add_argument(
        "--garments", default="fashion-mnist", metavar="DATA", help="grey images of 28 x 28 pixels [fashion-mnist]"
    )
    parser.add_argument(
        "--series", type=Path, metavar="FOLDER", help="with NAME/NAME_TEST.ts of the UCR archive [those inside of aeon]"
    )
    parser.add_argument("--epochs", type=int, metavar="N", help="fewer epochs, to try the command out")
    arguments = parser.parse_args(given)
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}; choose from {', '.join(CASES)}")
    folders = Folders(arguments.photographs, arguments.garments, arguments.series)
    keep_heap()
    torch.set_num_threads(1)
    store = arguments.out / "results" / "gallery"
    store.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases or CASES:
        kept = store / f"{name}.json"
        runs = json.loads(kept.read_text())["runs"] if kept.exists() else []
        for seed in range(arguments.seeds):
            if seed in [run["seed"] for run in runs]:
                continue
            problem = CASES[name].make(seed, folders)
            runs = sorted([*runs, learn(problem, seed, arguments.epochs)], key=lambda run: run["seed"])
            print(name, json.dumps(runs[-1]), file=sys.stderr, flush=True)
            shape = tuple(problem.train[0].shape[1:])
            truth = {key: problem.augmentation.readable(key, value, shape) for key, value in problem.truth.items()}
            write_json(kept, {"truth": truth, "runs": runs})
        problem = CASES[name].make(0, folders)
        draw_case(problem, runs, arguments.out / "images" / f"gallery-{name}.png")
    results = {file.stem: json.loads(file.read_text()) for file in store.glob("*.json")}
    write_page(arguments.out, CASES, results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
