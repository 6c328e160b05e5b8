"""The command line. Torch is imported only by what needs it, so that help and version answer at once."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `lila`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="lila",
        description="Learn which transformations of the input leave the output unchanged, and how far.",
    )
    parser.add_argument("--version", action="version", version=f"lila {version('lila-torch')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    show = commands.add_parser(
        "show",
        help="what a run learned",
        description="What a run learned: ranges in a person's units, evidence by term, test scores.",
        epilog="example: lila show runs/first",
    )
    show.add_argument("run", help="folder of a run, as given to lila.fit(folder=...) or run.save(...)")
    show.add_argument("--json", action="store_true", help="print JSON instead of text")
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 0
    return _show(chosen.run, chosen.json)


def _show(folder: str, as_json: bool) -> int:
    from lila.errors import LilaError
    from lila.training.run import load

    try:
        run = load(folder)
    except LilaError as error:
        print(f"lila: {error}", file=sys.stderr)
        return 1
    if not as_json:
        print(run.summary())
        return 0
    record = {
        "method": run.settings.method,
        "epochs": len(run.history),
        "ranges": dict(run.ranges),
        "readable_ranges": dict(run.model.augmentation.readable_ranges(run.shape)),
        "evidence": {"value": run.evidence.value, **run.evidence.terms()},
        "test": run.test,
    }
    print(json.dumps(record, indent=2))
    return 0
