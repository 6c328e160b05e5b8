"""The options and the output that the benchmark scripts have in common."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from lila._util.memory import keep_heap
from lila.benchmarks.measuring import machine
from lila.training.checkpoint import write_json


def new_parser(description: str | None, *, threads: int | None = None) -> argparse.ArgumentParser:
    """Return a parser with the option that every script has.

    Args:
        description: the docstring of the script, which `--help` shows.
        threads: the default of `--threads`; None for PyTorch's own.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    text = f"threads of PyTorch [{'all cores' if threads is None else threads}]"
    parser.add_argument("--threads", type=int, default=threads, metavar="N", help=text)
    return parser


def start(parser: argparse.ArgumentParser, given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line, set the number of threads, and keep freed memory (see `keep_heap`).

    Args:
        parser: made by `new_parser`.
        given: the arguments of the script; None for those of the process.
    """
    arguments = parser.parse_args(given)
    keep_heap()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    return arguments


def kept_result(path: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result in a file, after making it and writing it there, with the machine, if there is no such file."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**make(), **machine()})
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def print_result(arguments: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print a result as JSON, after the settings and the machine that it was measured with."""
    print(json.dumps({"settings": vars(arguments) | machine(), **result}, indent=2, default=str))
