"""What a person is told when a training is interrupted: the command that goes on with it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from lila.training.checkpoint import RUN
from lila.training.description import OwnCode


@contextmanager
def resumable(folder: Path, own: OwnCode, *, first: bool) -> Iterator[None]:
    """Name the command that goes on with the run of a folder if Ctrl-C or SIGTERM ends it.

    Args:
        folder: of the run.
        own: the code of the user's own, which the user must name again.
        first: whether this is the first process of the run; only that one says anything.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if not (folder / RUN).exists() or not first:
            raise
        told = f"interrupted; go on with: {resume_command(folder, own)}"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(told) from None
        print(f"lila: {told}", file=sys.stderr)
        raise


def resume_command(folder: Path, own: OwnCode) -> str:
    """Return the command that goes on with the run of a folder, quoted for a shell."""
    words = ["lila", "resume", str(folder)]
    for option, value in (("--model", own.model), ("--augment", own.augmentation)):
        if value is not None and ":" in value:
            words += [option, value]
    return " ".join(map(quote, words))
