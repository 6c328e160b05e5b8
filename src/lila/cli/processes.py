"""A command in the processes that torchrun started: the device of each, and which of them prints."""

import argparse
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lila._util.ranks import Ranks

_LONGEST = 365 * 24 * 60 * 60  # seconds


def add_device_options(parser: argparse._ActionsContainer) -> None:
    """Add the options for the device and for the processes of a run."""
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... [cuda if there is one; one each under torchrun]")
    parser.add_argument(
        "--rank-timeout",
        type=read_seconds,
        default=600.0,
        metavar="SECONDS",
        help="under torchrun, a process that does not answer for so long ends the run [600]",
    )


def read_seconds(text: str) -> float:
    """Return a duration in seconds, at most that of a year."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST:  # false for NaN too
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and {_LONGEST}")
    return seconds


@contextmanager
def processes(arguments: argparse.Namespace) -> "Iterator[tuple[Ranks, str]]":
    """Connect the processes of this command, and give them and the device of this one. Only the first one prints."""
    from lila._util.ranks import process_group

    where = device(arguments.device)
    with process_group(where, timedelta(seconds=arguments.rank_timeout)) as ranks:
        if not ranks.first:
            arguments.progress = "silent"
        yield ranks, where


def device(name: str | None) -> str:
    """Return the device that was named, or a GPU if there is one; under torchrun each process takes its own GPU."""
    import torch

    from lila.model.checks import check_device

    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    check_device(name)
    return name


def restarted() -> bool:
    """Return whether torchrun started these processes again after some had failed (`--max-restarts`)."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
