"""Denormal numbers: those below the smallest normal one, with which some processors compute far more slowly."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DENORMAL = 1e-40  # in float32
_SOFT = 1  # omp_pause_soft of OpenMP 5.0: what a thread has made stays


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Compute with zero in place of denormal numbers, in all of PyTorch's threads on a CPU.

    A network that has learned makes them: the gradients of examples that it fits, and their products, become smaller
    than 1e-38, and a weight that no input reaches decays with the prior. On some processors every product of matrices
    and every convolution then takes many times as long. What is lost is far below the rounding of any sum.

    `fit` and `resume` compute like this. A loop of your own may:

        with lila.flush_denormals():
            for x, y in loader:
                ...

    `torch.set_flush_denormal`, which this calls, reaches the calling thread alone, and threads that start later inherit
    from it. So the threads of PyTorch's OpenMP are ended when the context begins and ends; others start when they are
    needed.
    """
    before = torch.tensor(_DENORMAL).mul(1.0).item() == 0.0
    _set_in_all_threads(True)
    try:
        yield
    finally:
        _set_in_all_threads(before)


def _set_in_all_threads(flush: bool) -> None:
    torch.set_flush_denormal(flush)
    end_threads = getattr(ctypes.CDLL(torch._C.__file__), "omp_pause_resource_all", None)
    if end_threads is not None:
        end_threads(_SOFT)
