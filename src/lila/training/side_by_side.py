"""Several trainings at once, each in a process of its own."""

import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

import torch

from lila.errors import LilaError
from lila.training.interruption import ended_by_sigterm

T = TypeVar("T")

_PATIENCE = 30  # seconds in which an interrupted training may write its checkpoint


@dataclass(frozen=True)
class Failure:
    """What a piece of work ended with if it failed.

    Attributes:
        reason: what went wrong.
    """

    reason: str


def do_all(works: Sequence[Callable[[], T]], at_once: int) -> Iterator[tuple[int, T | Failure]]:
    """Do pieces of work; give the number of each and what it returned, in the order in which they end.

    A piece that fails with an error of lila's keeps no other from being done.

    Args:
        works: functions without arguments. If several are done at once, each goes to another process and must be
            picklable, and so must its result.
        at_once: the number of pieces to do side by side; if it is more than one, each has a process of its own, and
            the processes share the cores evenly.
    """
    return _one_by_one(works) if at_once == 1 else _side_by_side(works, at_once)


def _one_by_one(works: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T | Failure]]:
    for number, work in enumerate(works):
        try:
            ending: T | Failure = work()
        except LilaError as error:
            ending = Failure(str(error))
        yield number, ending


def _side_by_side(works: Sequence[Callable[[], T]], at_once: int) -> Iterator[tuple[int, T | Failure]]:
    """Start a process for each piece; if this process ends, they end too, after they have written a checkpoint."""
    context = multiprocessing.get_context("spawn")  # PyTorch's threads do not survive a fork
    threads = max(1, (os.cpu_count() or 1) // at_once)
    waiting, doing = list(enumerate(works)), dict[Connection, tuple[int, BaseProcess]]()
    with ended_by_sigterm():
        try:
            while waiting or doing:
                while waiting and len(doing) < at_once:
                    number, work = waiting.pop(0)
                    receiving, sending = context.Pipe(duplex=False)
                    process: BaseProcess = context.Process(target=_worker, args=(sending, work, threads))
                    process.start()
                    sending.close()
                    doing[receiving] = number, process
                # A connection is ready when a result was sent, which may be too large to wait for the process to end,
                # or when the process has ended without one.
                for ready in multiprocessing.connection.wait(list(doing)):
                    assert isinstance(ready, Connection)
                    number, process = doing.pop(ready)
                    ending: T | Failure | None = _received(ready)
                    process.join()
                    yield number, _death(process) if ending is None else ending
        finally:
            for _, process in doing.values():
                process.terminate()
            for _, process in doing.values():
                process.join(_PATIENCE)
                process.kill()


def _worker(sending: Connection, work: Callable[[], object], threads: int) -> None:
    """Do a piece of work in a process of its own; Ctrl-C reaches the process that started it, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        sending.send(work())
    except LilaError as error:
        sending.send(Failure(str(error)))


def _received(receiving: Connection) -> "T | Failure | None":
    """Return what a process has sent; None if it ended without a word."""
    with suppress(EOFError):
        ending: T | Failure = receiving.recv()
        return ending
    return None


def _death(process: BaseProcess) -> Failure:
    killed = ", perhaps for lack of memory" if process.exitcode == -signal.SIGKILL else ""
    return Failure(f"its process ended with code {process.exitcode}{killed}")
