"""A run's folder belongs to one process while it writes there.

The lock is the kernel's, on an open file, so it ends with the process however that ends. The file only tells others
who holds it.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lila._util.files import make_folder
from lila.errors import CheckpointError
from lila.training.schema import check_no_link

if sys.platform != "win32":
    import fcntl

LOCK = "run.lock"
_open_locks: set[int] = set()  # descriptors of files that this process has locked


class FolderInUseError(CheckpointError):
    """Another process trains a run in the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, which is made if need be, and removed again if nothing comes into it.

    Raises:
        FolderInUseError: another process holds it.
    """
    is_new = not folder.exists()
    make_folder(folder)
    path = folder / LOCK
    check_no_link(path)
    descriptor = _acquire(path)
    _open_locks.add(descriptor)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock ends, so that nobody else's file is deleted
        _open_locks.discard(descriptor)
        os.close(descriptor)
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _acquire(path: Path) -> int:
    """Open and lock the file at a path; try again if its holder deletes it between the two."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if sys.platform != "win32":
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise FolderInUseError(
                f"{path.parent} is in use: process {holder} trains a run there. Wait for it to end, or choose "
                "another folder."
            ) from None
        except FileNotFoundError:  # deleted since it was opened
            pass
        os.close(descriptor)


def _close_in_child() -> None:
    """Close the locks in a forked process, which would otherwise keep them after its parent was killed."""
    for descriptor in _open_locks:
        os.close(descriptor)
    _open_locks.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_child)
