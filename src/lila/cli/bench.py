"""Measure what a hyper-step costs in epochs of the weights, or a whole run in plain runs.

Ratios are of times measured in one run; seconds mean little on another machine. Let nothing else run
meanwhile. Other benchmarks are scripts of their own: --list shows all of them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from lila.cli.options import takes_path
from lila.errors import ArgumentError, DataError

EXAMPLES = """examples:
  lila bench
  lila bench --list
  lila bench --networks none --runs mlp,resnet-8-8
  lila bench --networks none --scaling --width 10000
  lila bench --networks mlp --examples 500 --out before.json
  lila bench --networks mlp --examples 500 --compare before.json"""

_SLOWER = 1.15  # a ratio that has grown by more than this factor is marked
_EXIT_CODE = f"the exit code is 1 if a ratio has grown by more than {_SLOWER - 1:.0%}".replace("%", "%%")

Measurement = Callable[[], dict[str, float]]
"""A function that measures, and returns values by name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila bench`."""
    parser.add_argument(
        "--list", action="store_true", help="list all benchmarks with their commands, and measure nothing"
    )
    networks = "networks whose hyper-steps to measure, or none [mlp,cnn,resnet-8-8]"
    parser.add_argument("--networks", default="mlp,cnn,resnet-8-8", metavar="NAMES", help=networks)
    passes = "kinds of hyper-steps [exact,probed,sampled]"
    parser.add_argument("--passes", default="exact,probed,sampled", metavar="NAMES", help=passes)
    runs = "also whole runs that learn while they train, beside plain ones; of mlp,resnet-8-8"
    parser.add_argument("--runs", metavar="NAMES", help=runs)
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs of whole runs [mlp 5, resnet-8-8 8]")
    scaling = "also how the cost grows with examples, samples and classes, and the memory with examples"
    parser.add_argument("--scaling", action="store_true", help=scaling)
    parser.add_argument("--width", type=int, metavar="UNITS", help="also the cost of an MLP with so many hidden units")
    examples = "training images [mlp 4000, others 1000; of whole runs 60000 and 10000]"
    parser.add_argument("--examples", type=int, metavar="N", help=examples)
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of PyTorch [all cores]")
    compare = f"show the values of an earlier --out beside the new ones; {_EXIT_CODE}"
    takes_path(
        parser.add_argument("--out", type=Path, metavar="FILE", help="write what was measured, as JSON"),
        parser.add_argument("--compare", type=Path, metavar="FILE", help=compare),
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila bench`."""
    if arguments.list:
        from lila.benchmarks.catalogue import BENCHMARKS, listing

        print(json.dumps([asdict(benchmark) for benchmark in BENCHMARKS], indent=2) if arguments.json else listing())
        return 0
    import torch

    from lila._util.choices import check_count
    from lila._util.memory import keep_heap
    from lila.training.checkpoint import write_json

    for name in ("examples", "width", "threads", "epochs"):
        check_count(name, getattr(arguments, name), optional=True)
    check_count("repeats", arguments.repeats)
    keep_heap()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    measurements, settings = chosen_measurements(arguments)
    earlier = None if arguments.compare is None else _read(arguments.compare)
    if earlier is not None:
        _warn_of_other_settings(arguments.compare, earlier, settings)
    results, slower = {}, []
    for name, measurement in measurements.items():
        results[name] = measurement()
        before = {} if earlier is None else earlier["results"].get(name, {})
        slower += [f"{name}, {key}" for key, value in results[name].items() if _is_slower(key, value, before)]
        if not arguments.json:
            _print(name, results[name], before)
    measured = settings | {"results": results} | ({} if earlier is None else {"slower": slower})
    if arguments.out is not None:
        write_json(arguments.out, measured)
    if arguments.json:
        print(json.dumps(measured, indent=2))
    return 1 if slower else 0


def chosen_measurements(arguments: argparse.Namespace) -> tuple[dict[str, Measurement], dict[str, Any]]:
    """Return the measurements that the options ask for, by name, and the settings that they are made with."""
    from lila.benchmarks import hyper_steps, scaling, whole_runs
    from lila.benchmarks.measuring import machine
    from lila.benchmarks.workloads import WORKLOADS

    kinds = _kinds_of_passes(arguments.passes)
    networks = [] if arguments.networks == "none" else _names(arguments.networks)
    runs = _names(arguments.runs) if arguments.runs else []
    for name in runs:
        if name not in whole_runs.RUNS:
            known = ", ".join(whole_runs.RUNS)
            raise ArgumentError(f"There is no whole run of {name!r} to measure; choose from {known}.")
    for name in networks:
        if name not in WORKLOADS:
            raise ArgumentError(f"There is no benchmark of {name!r}; choose from {', '.join(WORKLOADS)}.")
    counts = {name: arguments.examples or WORKLOADS[name].examples for name in networks}
    chosen: dict[str, Measurement] = {
        name: partial(hyper_steps.measure, WORKLOADS[name], counts[name], arguments.repeats, kinds) for name in networks
    }
    for name in runs:
        chosen[f"run of {name}"] = partial(whole_runs.whole_run, name, arguments.examples, arguments.epochs)
    if arguments.scaling:
        chosen |= {"scaling": partial(scaling.scaling, arguments.repeats), "memory": scaling.memory}
    if arguments.width is not None:
        chosen[f"width {arguments.width}"] = partial(scaling.width, arguments.width, arguments.examples or 1000)
    return chosen, {"examples": counts, "repeats": arguments.repeats, **machine()}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _kinds_of_passes(text: str) -> list[str]:
    from lila._util.choices import choose
    from lila.training.choices import FULL_PASSES, PassesName

    kinds = [choose(PassesName, name, "kind of passes") for name in _names(text)]
    if PassesName.RUNNING in kinds:
        instead = "the cost of learning while training is measured by a whole run: --runs mlp,resnet-8-8"
        raise ArgumentError(f"--passes takes {', '.join(FULL_PASSES)}; {instead}.")
    return [*kinds]


def _read(path: Path) -> dict[str, Any]:
    try:
        measured: dict[str, Any] = json.loads(path.read_text())
        measured["results"].items()
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path} was not written by `lila bench --out`: {error!r}") from error
    return measured


def _warn_of_other_settings(path: Path, earlier: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for key in [key for key, value in settings.items() if earlier.get(key) != value]:
        print(f"{path} was measured with {key} = {earlier.get(key)}, not {settings[key]}.", file=sys.stderr)


def _print(name: str, result: Mapping[str, float], before: Mapping[str, float]) -> None:
    print(name)
    for key, value in result.items():
        text = f"  {key:<38}{value:8.4g}"
        if key in before:
            text += f"   before {before[key]:8.4g}{'   slower' if _is_slower(key, value, before) else ''}"
        print(text, flush=True)


def _is_slower(key: str, value: float, before: Mapping[str, float]) -> bool:
    """Return whether a ratio has grown; seconds and bytes say something about one machine only."""
    return key in before and "seconds" not in key and "bytes" not in key and value > _SLOWER * before[key]
