"""The options and the output that the benchmark scripts have in common."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lila._util.memory import keep_heap
from lila.benchmarks.measuring import machine


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


def print_result(arguments: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print a result as JSON, after the settings and the machine that it was measured with."""
    print(json.dumps({"settings": vars(arguments) | machine(), **result}, indent=2, default=str))
