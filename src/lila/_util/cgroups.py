"""The memory and the processors that the control group of this process leaves it, on Linux.

A container or a batch system limits memory by a control group. The memory that `psutil` sees is the machine's, which
can be many times more than the limit, and a process that goes beyond its limit is killed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class _Version:
    """Where a version of control groups keeps its numbers.

    Attributes:
        mount: the folder where the groups are, below the root of the file system.
        limit: the file with the limit in bytes; it holds "max", or a very large number, where there is none.
        usage: the file with the bytes in use, cached files included.
        cached: the entry of `memory.stat` with the bytes of cached files that can be dropped.
    """

    mount: str
    limit: str
    usage: str
    cached: str


_NO_LIMIT = 2**62  # bytes; version 1 writes a number beyond this where there is no limit
_V2 = _Version("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
_V1 = _Version("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_in_cgroup(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process can still allocate within its control groups.

    Args:
        root: the root of the file system, which tests replace.

    Returns:
        The smallest amount that its group, or a group above it, leaves; None if there is no limit.
    """
    free = [_free_in_folder(folder, version) for version, folder in _folders(root)]
    return min((bytes_ for bytes_ in free if bytes_ is not None), default=None)


def limit_of_cgroup(root: Path = Path("/")) -> int | None:
    """Return the bytes that the control groups of this process allow it and its neighbours in all; None for no limit.

    Args:
        root: the root of the file system, which tests replace.
    """
    limits = [_number(folder / version.limit) for version, folder in _folders(root)]
    return min((limit for limit in limits if limit is not None and limit < _NO_LIMIT), default=None)


def processors_of_cgroup(root: Path = Path("/")) -> float | None:
    """Return how many processors' time the control groups (version 2) of this process allow it; None for no limit.

    Args:
        root: the root of the file system, which tests replace.
    """
    found = [(_text(folder / "cpu.max") or "").split() for version, folder in _folders(root) if version is _V2]
    shares = [int(part[0]) / int(part[1]) for part in found if len(part) == 2 and all(word.isdigit() for word in part)]
    return min(shares, default=None)


def _groups(root: Path) -> Iterator[tuple[_Version, PurePosixPath]]:
    """Return the groups of this process that control memory, by their version."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, group = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield _V2, PurePosixPath(group)
        elif "memory" in controllers.split(","):
            yield _V1, PurePosixPath(group)


def _folders(root: Path) -> Iterator[tuple[_Version, Path]]:
    """Return the folders of these groups and of all groups above them.

    In a container the path may be the host's, and the top is the container's own.
    """
    for version, group in _groups(root):
        inside = PurePosixPath(*(part for part in group.parts if part not in ("/", "..")))
        for step in (inside, *inside.parents):
            yield version, root / version.mount / step


def _free_in_folder(folder: Path, version: _Version) -> int | None:
    limit, usage = _number(folder / version.limit), _number(folder / version.usage)
    if limit is None or usage is None:
        return None
    entries = dict(line.split(" ", 1) for line in (_text(folder / "memory.stat") or "").splitlines() if " " in line)
    cached = int(entries.get(version.cached, "0"))
    return max(limit - max(usage - cached, 0), 0)


def _number(path: Path) -> int | None:
    text = (_text(path) or "").strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:  # there are no control groups, or they are not shown to this process
        return None
