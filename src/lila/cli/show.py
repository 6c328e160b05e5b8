"""Show what a run learned: ranges in a person's units with little bars, evidence by term, test scores."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lila._util.shell import printable
from lila.cli.options import add_images_option, add_own_code_options, own_code, takes_folder, takes_path

if TYPE_CHECKING:
    from lila.training.description import TaskDescription
    from lila.training.run import Run

EXAMPLES = """examples:
  lila show runs/first
  lila show runs/first --json
  lila show runs/first --classes
  lila show runs/first --picture first.png"""

_IMAGES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila show`."""
    takes_folder(parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run"))
    takes_path(parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw it: PNG, SVG or PDF"))
    add_images_option(parser)
    parser.add_argument("--classes", action="store_true", help="also the test results of each class, and confusions")
    add_own_code_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila show`."""
    from lila.training.tasks import open_run

    opened, task = open_run(arguments.run, own_code(arguments))
    if arguments.picture is not None:
        draw(opened, task, arguments.picture, named_paths=arguments.with_images)
    print(json.dumps(record(opened), indent=2) if arguments.json else printable(opened.summary()))
    if arguments.classes and not arguments.json:
        print(printable(by_class(opened, task)))
    return 0


def by_class(run: "Run", task: "TaskDescription | None") -> str:
    """Return the test results of each class as text."""
    from lila.results.classes import class_tables

    if run.confusion is None:
        return "\nThere are no results by class: the run has no test data, no classes, or more than 200 of them."
    tables = class_tables(run.confusion, run.classes)
    return printable("\n".join(f"\n{table.text()}" for table in tables))


def draw(run: "Run", task: "TaskDescription | None", path: Path, *, named_paths: bool) -> None:
    """Draw a run, with the true ranges and some images if it is known what it was made from.

    Args:
        run: the run.
        task: what it was made from, if that is known.
        path: of the picture.
        named_paths: whether to read images from a path that the run names.
    """
    from lila.errors import DataError
    from lila.results.plots import draw_run

    if task is None:
        draw_run(run, path)
        return
    try:
        images = task.some_images(_IMAGES, named_paths=named_paths)
    except DataError as error:
        print(printable(f"lila: drawn without images: {error}"), file=sys.stderr)
        draw_run(run, path, task.true_ranges())
        return
    draw_run(run, path, task.true_ranges(), images, show=task.scaling.undo)


def record(run: "Run") -> dict[str, Any]:
    """Return what a run learned, as JSON."""
    from lila.training.history import range_spread

    spread = range_spread(run.history)
    return {
        "method": run.settings.method,
        "epochs": len(run.history),
        "ranges": dict(run.ranges),
        "readable_ranges": dict(run.model.augmentation.readable_ranges(run.shape)),
        "range_errors": run.range_errors,
        "couplings": [asdict(coupling) for coupling in run.model.augmentation.couplings()],
        "spread_over_last_epochs": None if spread is None else asdict(spread),
        "evidence": {
            "value": run.evidence.value,
            **run.evidence.terms(),
            "standard_error": run.evidence.standard_error,
        },
        "test": run.test,
        "baselines": asdict(run.baselines),
        "never_predicted": list(run.never_predicted),
        "verdict": {"learned": run.verdict.learned, "text": run.verdict.text()},
        "confusion": run.confusion,
        "calibration": None if run.calibration is None else [asdict(bin_) for bin_ in run.calibration],
    }
