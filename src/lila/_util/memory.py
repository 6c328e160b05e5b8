"""The memory that is free or in use, and how a number of bytes is written and read."""

import ctypes
import os
import re
import sys
from pathlib import Path

import psutil
import torch

from lila._util.cgroups import free_in_cgroup
from lila.errors import ArgumentError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's <malloc.h>
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def available_bytes(device: torch.device) -> int:
    """Return how many bytes this process can still allocate on a device.

    On the CPU this is the memory that is free, or what the control group of a container or batch system leaves if that
    is less. The processes of one run share the memory of a machine evenly.
    """
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + cached)
    free, in_cgroup = int(psutil.virtual_memory().available), free_in_cgroup()
    return (free if in_cgroup is None else min(free, in_cgroup)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def peak_bytes(device: torch.device) -> int:
    """Return the most memory in use so far: allocated by PyTorch on a GPU, resident in the process on the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    status = Path("/proc/self/status")
    if status.exists():  # what `resource` says there begins with the peak of the process that started this one
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(), flags=re.MULTILINE)
        if found is not None:
            return int(found[1]) * 1024
    import resource  # there is none on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def keep_heap() -> bool:
    """Let glibc keep the memory of freed tensors for the next ones, instead of returning it to the kernel each time.

    Large tensors are otherwise mapped anew at every allocation, and the page faults of their first use can cost more
    than the computation. The peak of memory stays the same, but the process does not shrink below it. The command line
    calls this at its start; a program of your own may call it. The environment variables MALLOC_MMAP_THRESHOLD_ and
    MALLOC_TRIM_THRESHOLD_ have the same effect.

    Returns:
        Whether it could be done: only glibc has it.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    most, never = 2**31 - 1, -1  # the first is the largest value of a C int
    return bool(mallopt(_M_MMAP_THRESHOLD, most)) and bool(mallopt(_M_TRIM_THRESHOLD, never))


def readable_bytes(count: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} {_UNITS[-1]}"


def parse_bytes(text: str, name: str) -> int:
    """Return the number of bytes that a text such as "4GiB" or "500 MiB" stands for.

    Args:
        text: the text.
        name: of the setting that it is given for, for an error.
    """
    pattern = r"\s*(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB)\s*"
    found = re.fullmatch(pattern, text) if isinstance(text, str) else None
    if found is None or float(found[1]) == 0:
        raise ArgumentError(
            f"{name} must be an amount of memory with its unit, written as '4GiB' or '500 MiB', but is {text!r}."
        )
    return int(float(found[1]) * 1024 ** _UNITS.index(found[2]))
