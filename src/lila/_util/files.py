"""Writing files and folders so that a reader never sees half of one.

Everything is written under a temporary name first. The name says which process writes it, so that what a killed process
left behind is recognised and removed by the next process that writes into the same folder.
"""

import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psutil

from lila.errors import ArgumentError

_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}")


def make_folder(path: Path) -> None:
    """Make a folder, and those in which it lies, if they do not exist.

    Raises:
        ArgumentError: the path, or one in which it lies, is a file.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ArgumentError(f"{path} is needed as a folder, but it, or a part of the path, is a file.") from error


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a temporary path, and let what is written there replace the target when the block ends without an error.

    The path is in a temporary folder beside the target: libraries that write files may leave others beside them if the
    process is killed.

    Raises:
        ArgumentError: the path is a folder, or lies in a file.
    """
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; name a file to write.")
    with temporary_folder(path) as folder:
        temporary = folder / path.name  # the file is made by `open`, with the permissions of a usual file
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside the target, which becomes the target when the block ends without an error.

    If another process has made the target meanwhile, theirs stays.
    """
    with temporary_folder(path) as temporary:
        yield temporary
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Give a new folder beside a path, and remove it when the block ends."""
    make_folder(path.parent)
    remove_abandoned(path.parent)
    temporary = temporary_path(path)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def temporary_path(path: Path) -> Path:
    """Return a hidden path beside another one, with the number of this process in its name."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid4().hex[:8]}")


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders in a folder whose process, on this machine, no longer exists."""
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found is None or found[1] != _machine() or psutil.pid_exists(int(found[2])):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@cache
def _machine() -> str:
    """Return a number for this machine or container: in others the numbers of processes mean something else."""
    namespace = Path("/proc/self/ns/pid")
    inside = os.readlink(namespace) if namespace.is_symlink() else ""
    return hashlib.sha256(f"{socket.gethostname()} {inside}".encode()).hexdigest()[:8]
