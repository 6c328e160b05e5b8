"""An interrupted run leaves a checkpoint of its last whole epoch."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lila._util.ranks import RankError
from lila.training.checkpoint import Checkpoint, CheckpointWriter
from lila.training.state import State


@contextmanager
def saved_on_interruption(state: State, writer: CheckpointWriter | None) -> Iterator[Callable[[], None]]:
    """Write a checkpoint when Ctrl-C, SIGTERM or the end of another process ends the run.

    The state is whole between epochs only. The function that is yielded keeps a copy of it there, and a run that goes
    on repeats the epoch that was interrupted.
    """
    kept: list[Checkpoint] = []

    def keep() -> None:
        if writer is not None:
            tensors = {name: tensor.clone() for name, tensor in state.tensors().items()}
            kept[:] = [Checkpoint(tensors, state.epoch, list(state.history))]

    keep()
    with ended_by_sigterm():
        try:
            yield keep
        except (KeyboardInterrupt, SystemExit, RankError):
            if writer is not None and kept and kept[0].epoch > 0:  # else there is nothing to go on from
                writer.write(kept[0])
            raise


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process in good order, as Ctrl-C does. Only the main thread receives signals."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if in_main_thread else None
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)
