"""Show what a run learned: ranges in a person's units with little bars, evidence by term, test scores."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lila.cli.task import RunTask
    from lila.training.run import Run

EXAMPLES = """examples:
  lila show runs/first
  lila show runs/first --json
  lila show runs/first --picture first.png"""

_IMAGES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila show`."""
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw it: PNG, SVG or PDF")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila show`."""
    from lila.cli.task import open_run

    opened, task = open_run(arguments.run)
    if arguments.picture is not None:
        draw(opened, task, arguments.picture)
    print(json.dumps(record(opened), indent=2) if arguments.json else opened.summary())
    return 0


def draw(run: "Run", task: "RunTask | None", path: Path) -> None:
    """Draw a run; with the true ranges and some images if it is known what it was made from."""
    from lila.data.examples import Examples
    from lila.data.task import load_data
    from lila.data.transformed import true_ranges
    from lila.plots import draw_run

    if task is None:
        draw_run(run, path)
        return
    recipe = replace(task.recipe, subset=min(_IMAGES, task.examples[0]), transform="original")
    images = next(Examples(load_data(recipe, task.folder()).train).batches(_IMAGES)).x
    truth = None if task.recipe.transform == "original" else true_ranges(task.recipe.transform, task.shape)
    draw_run(run, path, truth, images, task.scaling.undo)


def record(run: "Run") -> dict[str, Any]:
    """What a run learned, as JSON."""
    return {
        "method": run.settings.method,
        "epochs": len(run.history),
        "ranges": dict(run.ranges),
        "readable_ranges": dict(run.model.augmentation.readable_ranges(run.shape)),
        "evidence": {"value": run.evidence.value, **run.evidence.terms()},
        "test": run.test,
    }
