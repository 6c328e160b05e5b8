"""What becomes of a run that is interrupted."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from lila._util.ranks import RankError
from lila.training.checkpoint import write_checkpoint
from lila.training.state import State


@contextmanager
def saved_on_interruption(state: State, folder: Path | None) -> Iterator[Callable[[], None]]:
    """Write the state that was last kept to a checkpoint when Ctrl-C, SIGTERM or another process's end ends the run.

    The state is whole between epochs only, so it is kept (copied) there, and what a half epoch did is done again.
    """
    kept: list[tuple[dict[str, Tensor], int, list[dict[str, Any]]]] = []

    def keep() -> None:
        if folder is not None:
            kept[:] = [({k: v.clone() for k, v in state.tensors().items()}, state.epoch, list(state.history))]

    keep()
    with ended_by_sigterm():
        try:
            yield keep
        except (KeyboardInterrupt, SystemExit, RankError):
            if folder is not None and kept and kept[0][1] > 0:  # nothing is left of a run that got through no epoch
                write_checkpoint(folder, *kept[0])
            raise


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process in good order, as Ctrl-C does. Only the main thread is told of it."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if in_main_thread else None
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)
