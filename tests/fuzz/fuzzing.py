"""What is fuzzed, and how a single case is run: files are damaged at random, and reading them must end well.

A case is known by the name of its target and a number, and is the same each time. Reading damaged files must either
give a result that passes the target's own checks, or raise an error of lila. Any other exception, more than `SECONDS`
seconds, and an allocation beyond `MEMORY` bytes are failures.

To fuzz something else, add a `Target` to `data_targets` or `run_targets`: valid files, and a function that opens the
folder with them.
"""

import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import rmtree
from unittest import mock

import psutil
from mutations import GENERIC, Files, Mutation, damage_files

from lila.errors import LilaError, MemoryBudgetError

VARIABLE = "LILA_FUZZ_CASE"
SECONDS = 10.0
MEMORY = 256 * 2**20
UNPACK_LIMIT = "4MiB"


@dataclass(frozen=True)
class Target:
    """Something that reads files.

    Attributes:
        name: the name, by which a case is run again.
        files: makes valid files, by their paths in a folder.
        read: opens the folder, and checks whatever was read. It raises a LilaError if the files are refused.
        mutations: the ways to damage the content of a file.
    """

    name: str
    files: Callable[[], Files]
    read: Callable[[Path], None]
    mutations: Sequence[Mutation] = GENERIC


class Hung(BaseException):
    """Reading did not end in time. Not an Exception: nothing that reads files may catch it."""


def run_cases(target: Target, numbers: Sequence[int], folder: Path) -> tuple[int, int]:
    """Run cases one after the other.

    Returns:
        The number of cases that were read, and of those that were refused.

    Raises:
        AssertionError: a case failed. The message says how to run it alone.
    """
    valid, refused, chosen = target.files(), 0, numbers_to_run(target, numbers)
    for number in chosen:
        refused += not _run(target, valid, number, folder / str(number))
    return len(chosen) - refused, refused


def numbers_to_run(target: Target, numbers: Sequence[int]) -> Sequence[int]:
    """Return the numbers of the cases to run: those given, or the one that LILA_FUZZ_CASE names (`npz:123`)."""
    name, _, number = os.environ.get(VARIABLE, "").rpartition(":")
    if not number:
        return numbers
    return [int(number)] if name == target.name else []


def _run(target: Target, valid: Files, number: int, folder: Path) -> bool:
    """Run a case; returns whether the damaged files were read."""
    random = Random(f"{target.name}:{number}")
    write(damage_files(valid, random, target.mutations), folder / "files")
    changes = {"XDG_CACHE_HOME": str(folder / "cache"), "LILA_UNPACK_LIMIT": UNPACK_LIMIT}
    try:
        with mock.patch.dict(os.environ, changes), warnings.catch_warnings(), _limited():
            warnings.simplefilter("ignore")  # as on the command line: a warning is not an error
            target.read(folder / "files")
        was_read = True
    except LilaError as error:
        if _ran_out_of_memory(error):
            raise AssertionError(told(target, number, f"allocated too much: {error}")) from error
        was_read = False
    except (Exception, Hung) as error:
        raise AssertionError(told(target, number, f"{type(error).__name__}: {error}")) from error
    left = list((folder / "cache").rglob(".*"))
    assert not left, told(target, number, f"left {left} behind")
    rmtree(folder)
    return was_read


def told(target: Target, number: int, what: str) -> str:
    """Return the message of a failed case."""
    return f"{what}\nRun this case alone: {VARIABLE}={target.name}:{number} python -m pytest tests/fuzz"


def write(files: Files, folder: Path) -> None:
    """Write files to a new folder. A file in the way of another is left out."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        if not path.is_dir() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@contextmanager
def _limited() -> Iterator[None]:
    """Bound the time and the address space of what is done inside."""

    def stop(number: int, frame: object) -> None:
        raise Hung(f"not done after {SECONDS} s")

    before, limits = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error goes back to an allocation that was tried and failed."""
    while error is not None:
        if isinstance(error, MemoryError) and not isinstance(error, MemoryBudgetError):
            return True
        error = error.__cause__
    return False
