"""Measure what a hyper-step costs in epochs of the weights, or a whole run in plain runs, and compare with a record.

Ratios are of times measured in one run; seconds mean little on another machine. Let nothing else run meanwhile.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lila.cli.options import takes_path

EXAMPLES = """examples:
  lila bench
  lila bench --networks none --runs mlp,resnet-8-8
  lila bench --networks none --scaling --width 10000
  lila bench --networks mlp --examples 500 --out before.json
  lila bench --networks mlp --examples 500 --compare before.json"""

_SLOWER = 1.15  # of an earlier ratio: what is above it is marked
_ENDS = f"the exit code is 1 if a ratio has grown by more than {_SLOWER - 1:.0%}".replace("%", "%%")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila bench`."""
    networks = "which to measure, or none [mlp,cnn,resnet-8-8]"
    parser.add_argument("--networks", default="mlp,cnn,resnet-8-8", metavar="NAMES", help=networks)
    passes = "which kinds of hyper-steps [exact,probed,sampled]"
    parser.add_argument("--passes", default="exact,probed,sampled", metavar="NAMES", help=passes)
    runs = "also whole runs that learn while they train, beside plain ones; of mlp,resnet-8-8"
    parser.add_argument("--runs", metavar="NAMES", help=runs)
    parser.add_argument("--epochs", type=int, metavar="N", help="of whole runs [mlp 5, resnet-8-8 8]")
    scaling = "also how the cost grows with examples, samples and classes, and the memory with examples"
    parser.add_argument("--scaling", action="store_true", help=scaling)
    parser.add_argument("--width", type=int, metavar="UNITS", help="also the cost of an MLP with so many hidden units")
    examples = "training images [mlp 4000, others 1000; of whole runs 60000 and 10000]"
    parser.add_argument("--examples", type=int, metavar="N", help=examples)
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    parser.add_argument("--threads", type=int, metavar="N", help="of PyTorch [all cores]")
    takes_path(
        parser.add_argument("--out", type=Path, metavar="FILE", help="write the record, as JSON"),
        parser.add_argument("--compare", type=Path, metavar="FILE", help=f"show an earlier record beside it; {_ENDS}"),
    )
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila bench`."""
    import torch

    from lila._util.choices import check_count, choose
    from lila._util.memory import keep_heap
    from lila.benchmarks import JOBS, RUNS, machine, measure, memory, scaling, whole_run, width
    from lila.errors import ArgumentError
    from lila.training.checkpoint import write_json
    from lila.training.choices import FULL_PASSES, PassesName

    check_count("examples", arguments.examples, optional=True)
    check_count("repeats", arguments.repeats)
    check_count("width", arguments.width, optional=True)
    check_count("threads", arguments.threads, optional=True)
    keep_heap()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    kinds = [choose(PassesName, name.strip(), "kind of passes") for name in arguments.passes.split(",")]
    if PassesName.RUNNING in kinds:
        whole = "what learning while training costs is told by a whole run: --runs mlp,resnet-8-8"
        raise ArgumentError(f"--passes takes {', '.join(FULL_PASSES)}; {whole}.")
    runs = [name.strip() for name in arguments.runs.split(",")] if arguments.runs else []
    without = [name for name in runs if name not in RUNS]
    if without:
        raise ArgumentError(f"There is no whole run of {without[0]!r} to measure; choose from {', '.join(RUNS)}.")
    check_count("epochs", arguments.epochs, optional=True)
    names = [] if arguments.networks == "none" else [name.strip() for name in arguments.networks.split(",")]
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        raise ArgumentError(f"There is no benchmark of {unknown[0]!r}; choose from {', '.join(JOBS)}.")
    earlier = None if arguments.compare is None else _read(arguments.compare)
    counts = {name: arguments.examples or JOBS[name].examples for name in names}
    work: dict[str, Callable[[], dict[str, float]]] = {
        name: partial(measure, JOBS[name], counts[name], arguments.repeats, kinds) for name in names
    }
    for name in runs:
        work[f"run of {name}"] = partial(whole_run, name, arguments.examples, arguments.epochs)
    if arguments.scaling:
        work |= {"scaling": partial(scaling, arguments.repeats), "memory": memory}
    if arguments.width is not None:
        work[f"width {arguments.width}"] = partial(width, arguments.width, arguments.examples or 1000)
    settings = {"examples": counts, "repeats": arguments.repeats, **machine()}
    if earlier is not None:
        for key in [key for key, value in settings.items() if earlier.get(key) != value]:
            note = f"{arguments.compare} was measured with {key} = {earlier.get(key)}, not {settings[key]}."
            print(note, file=sys.stderr)
    results, slower = {}, []
    for name, measured in work.items():
        results[name] = measured()
        before = {} if earlier is None else earlier["results"].get(name, {})
        slower += [f"{name}, {key}" for key, value in results[name].items() if _is_slower(key, value, before)]
        if not arguments.json:
            _print(name, results[name], before)
    record = settings | {"results": results} | ({} if earlier is None else {"slower": slower})
    if arguments.out is not None:
        write_json(arguments.out, record)
    if arguments.json:
        print(json.dumps(record, indent=2))
    return 1 if slower else 0


def _read(path: Path) -> dict[str, Any]:
    from lila.errors import DataError

    try:
        record: dict[str, Any] = json.loads(path.read_text())
        record["results"].items()
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path} is not a record of `lila bench`: {error!r}") from error
    return record


def _print(name: str, result: dict[str, float], before: dict[str, float]) -> None:
    print(name)
    for key, value in result.items():
        text = f"  {key:<38}{value:8.4g}"
        if key in before:
            text += f"   before {before[key]:8.4g}{'   slower' if _is_slower(key, value, before) else ''}"
        print(text, flush=True)


def _is_slower(key: str, value: float, before: dict[str, float]) -> bool:
    """Whether a ratio has grown; seconds and bytes are of one machine only."""
    return key in before and "seconds" not in key and "bytes" not in key and value > _SLOWER * before[key]
