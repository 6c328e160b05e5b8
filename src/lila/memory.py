"""How much memory there is, and how to say it."""

import resource
import sys

import psutil
import torch


def available_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated on a device."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + cached)
    return int(psutil.virtual_memory().available)


def peak_bytes(device: torch.device) -> int:
    """The most memory in use so far: allocated by PyTorch on a GPU, resident in the process on the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def readable_bytes(count: float) -> str:
    """A number of bytes as a person reads it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
