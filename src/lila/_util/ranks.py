"""Several processes that work on one run, each on its share of the examples (`torchrun`).

Whatever a pass over the data computes is a sum over examples, so the processes add up their results: gradients of the
weights, factors of the curvature, gradients of the hyperparameters. All processes do everything else in the same way,
and each holds the same state. Shares may be unequal or empty, as a sum over examples needs no weights. Without a
process group there is one process, and nothing here has an effect.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from lila.errors import ArgumentError, LilaError

T = TypeVar("T")

BUCKET = 2**26
"""Bytes that are sent at a time: few large messages, but no second copy of all tensors."""
_NAMING = 3.0  # seconds in which processes that are alive report themselves


class RankError(LilaError):
    """Another process of the run failed, died or did not answer."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: the number of this process, from 0.
        count: the number of processes.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> "Ranks":
        """Return the processes of the default process group, or this process alone if there is none."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def share(self, index: Tensor) -> Tensor:
        """Return the examples, of those with these indices, that this process works on: an equal share, up to one."""
        return index.tensor_split(self.count)[self.rank]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        self._exchange(tensors, dist.all_reduce)

    def send_(self, tensors: Sequence[Tensor], source: int) -> None:
        """Replace each tensor by the one that process `source` has."""
        self._exchange(tensors, partial(dist.broadcast, src=source))

    def _exchange(self, tensors: Sequence[Tensor], work: Callable[[Tensor], Any]) -> None:
        """Apply a collective operation to all tensors, in as few messages as their types and sizes allow."""
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            self._collective(partial(work, flat))
            for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""
        if self.count == 1:
            return [value]
        gathered: list[Any] = [None] * self.count
        self._collective(lambda: dist.all_gather_object(gathered, value))
        return gathered

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """Run a block in each process; if it fails in one, all raise an error with the rank and the reason."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:  # the others are informed first; they would wait for ever otherwise
            if self.count == 1 or isinstance(error, RankError):
                raise
            failure = error
        if self.count == 1:
            return
        failed = torch.tensor([failure is not None], dtype=torch.int32, device=device)
        self._collective(lambda: dist.all_reduce(failed))
        if not failed:
            return
        reasons = self.gather(None if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        failed_ranks = [f"rank {rank} failed: {reason}" for rank, reason in enumerate(reasons) if reason is not None]
        raise RankError(f"The run ends here, as {'; '.join(failed_ranks)}")

    def check_same(self, what: dict[str, Any]) -> None:
        """Raise unless all processes were started with the same values.

        Args:
            what: the values by name.

        Raises:
            ArgumentError: the values differ. All processes raise it.
        """
        every = self.gather(what)
        for name in what:
            values = [other.get(name) for other in every]
            if any(value != values[0] for value in values):
                listed = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
                raise ArgumentError(
                    f"The processes of a run must be started alike, but their {name} differ ({listed}). Start all with "
                    "one command, and give each node the same data."
                )

    def _collective(self, work: Callable[[], Any]) -> None:
        """Run a collective operation, and raise an error that names the missing processes if it fails."""
        try:
            work()
        except (RuntimeError, ConnectionError) as error:
            raise RankError(
                f"Rank {self.rank} could not reach the others: {_missing(self)} The last checkpoint is whole: go on "
                "with `lila resume`, or let torchrun do so (--max-restarts)."
            ) from error


ALONE = Ranks()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Group tensors of one type and device into lists of up to `BUCKET` bytes, or of a single larger tensor."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for alike in kinds.values():
        bucket: list[Tensor] = []
        for tensor in alike:
            if bucket and sum(t.nbytes for t in bucket) + tensor.nbytes > BUCKET:
                yield bucket
                bucket = []
            bucket.append(tensor)
        yield bucket


def _missing(ranks: Ranks) -> str:
    """Say which processes do not answer: those that write nothing to the store within a few seconds."""
    try:
        store = dist.distributed_c10d._get_default_store()
        store.set(f"lila/alive/{ranks.rank}", "yes")
        time.sleep(_NAMING)
        missing = [str(rank) for rank in range(ranks.count) if not store.check([f"lila/alive/{rank}"])]
    except (RuntimeError, ValueError):  # the store lives in a process that may itself be gone
        return "the process that keeps their addresses is gone."
    if not missing:
        return "the connection was lost."
    return f"rank {', '.join(missing)} died or did not answer in time, or is still computing."


@contextmanager
def process_group(device: str, timeout: timedelta) -> Iterator[Ranks]:
    """Connect the processes that torchrun started, for the length of a block; without torchrun this process is alone.

    Args:
        device: the device of this process.
        timeout: the time after which a process that does not answer ends the run.
    """
    if "RANK" not in os.environ or dist.is_initialized():
        yield Ranks.here()
        return
    store, rank, count = next(iter(rendezvous("env://", timeout=timeout)))
    # After a restart the store still has the addresses of processes that died.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=dist.PrefixStore(f"lila/{attempt}", store),  # type: ignore[attr-defined]
        rank=rank,
        world_size=count,
        timeout=timeout,
    )
    try:
        yield Ranks.here()
        dist.barrier()  # no process leaves while others may still wait for it
    finally:
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """End this process at once, after its output was written.

    Threads of gloo may hold tensors for a moment after they are done. A thread that frees one while Python shuts down
    aborts the process, and torchrun would take a finished run for a failed one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
