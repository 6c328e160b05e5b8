"""The memory that the control group of this process leaves it, on Linux.

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


_V2 = _Version("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
_V1 = _Version("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_in_cgroup(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process can still allocate within its control groups.

    Args:
        root: the root of the file system, which tests replace.

    Returns:
        The smallest amount that its group, or a group above it, leaves; None if there is no limit.
    """
    free = [_free(root / version.mount, group, version) for version, group in _groups(root)]
    return min((bytes_ for bytes_ in free if bytes_ is not None), default=None)


def _groups(root: Path) -> Iterator[tuple[_Version, PurePosixPath]]:
    """Return the groups of this process that control memory, by their version."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, group = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield _V2, PurePosixPath(group)
        elif "memory" in controllers.split(","):
            yield _V1, PurePosixPath(group)


def _free(mount: Path, group: PurePosixPath, version: _Version) -> int | None:
    """What a group and all groups above it leave; in a container the path may be the host's, and the top is its own."""
    inside = PurePosixPath(*(part for part in group.parts if part not in ("/", "..")))
    folders = [mount / step for step in (inside, *inside.parents)]
    found = [_free_in_folder(folder, version) for folder in folders]
    return min((bytes_ for bytes_ in found if bytes_ is not None), default=None)


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
