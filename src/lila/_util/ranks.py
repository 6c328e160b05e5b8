"""Several processes that work on one run, each on its share of the examples (`torchrun`).

Whatever a pass over the data computes is a sum over examples, so processes agree by adding up: gradients of the
weights, factors of the curvature, gradients of the hyperparameters. Everything else they all do alike, and every
process holds the same state. A sum is weighted by nothing but its examples, so shares need not be equal, or not be
empty. Without a process group there is one process, and nothing here does anything.
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
"""Bytes that are sent at a time: few large messages, yet no second copy of everything."""
_NAMING = 3.0  # seconds in which ranks that are alive say so


class RankError(LilaError):
    """Another process of the run failed, died or did not answer."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: the number of this one, from 0.
        count: how many there are.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> "Ranks":
        """Those of the default process group; this process alone if there is none."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and tells of progress."""
        return self.rank == 0

    def share(self, index: Tensor) -> Tensor:
        """The part of these examples that is this process's: about as many as anyone's."""
        return index.tensor_split(self.count)[self.rank]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        self._exchange(tensors, dist.all_reduce)

    def send_(self, tensors: Sequence[Tensor], source: int) -> None:
        """Replace each tensor by that of one process."""
        self._exchange(tensors, partial(dist.broadcast, src=source))

    def _exchange(self, tensors: Sequence[Tensor], work: Callable[[Tensor], Any]) -> None:
        """Do something with all tensors, in as few messages as their types and sizes allow."""
        if self.count == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            self._collective(partial(work, flat))
            for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def gather(self, value: T) -> list[T]:
        """What each process gives, by rank."""
        if self.count == 1:
            return [value]
        gathered: list[Any] = [None] * self.count
        self._collective(lambda: dist.all_gather_object(gathered, value))
        return gathered

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """Do something alone that may fail; if it fails in one process it ends in all, with the rank and the reason."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:  # told to the others first, who would wait for ever
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
        told = "; ".join(f"rank {rank} failed: {reason}" for rank, reason in enumerate(reasons) if reason is not None)
        raise RankError(f"The run ends here, as {told}")

    def check_same(self, what: dict[str, Any]) -> None:
        """Raise unless all processes were started with the same things, given by name.

        Raises:
            ArgumentError: they differ; in all processes.
        """
        every = self.gather(what)
        for name in what:
            values = [other.get(name) for other in every]
            if any(value != values[0] for value in values):
                told = ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))
                raise ArgumentError(
                    f"The processes of a run must be started alike, but their {name} differ ({told}). Start all with "
                    "one command, and give each node the same data."
                )

    def _collective(self, work: Callable[[], Any]) -> None:
        """Do what takes all processes; say which is missing if it fails."""
        try:
            work()
        except (RuntimeError, ConnectionError) as error:
            raise RankError(
                f"Rank {self.rank} could not reach the others: {_missing(self)} The last checkpoint is whole: go on "
                "with `lila resume`, or let torchrun do so (--max-restarts)."
            ) from error


ALONE = Ranks()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one type and device at a time, up to `BUCKET` bytes unless a single one is larger."""
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
    """Which ranks do not answer: those that write nothing to the store while others wait for them to."""
    try:
        store = dist.distributed_c10d._get_default_store()
        store.set(f"lila/alive/{ranks.rank}", "yes")
        time.sleep(_NAMING)
        missing = [str(rank) for rank in range(ranks.count) if not store.check([f"lila/alive/{rank}"])]
    except (RuntimeError, ValueError):  # it lives in a process that may itself be gone
        return "the process that keeps their addresses is gone."
    told = f"rank {', '.join(missing)} died or did not answer in time"
    return f"{told}, or is still computing." if missing else "the connection was lost."


@contextmanager
def process_group(device: str, timeout: timedelta) -> Iterator[Ranks]:
    """The processes that torchrun started, while they are needed; this one alone if it started none.

    Args:
        device: of this process.
        timeout: after which a process that does not answer ends the run.
    """
    if "RANK" not in os.environ or dist.is_initialized():
        yield Ranks.here()
        return
    store, rank, count = next(iter(rendezvous("env://", timeout=timeout)))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # addresses of those that died are still in the store
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
        dist.barrier()  # nobody leaves while others may still listen
    finally:
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """End this process at once, its output written.

    Threads of gloo may hold tensors for a moment after they are done, and one that lets go while Python winds up aborts
    the process, by which torchrun takes a finished run for a failed one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
