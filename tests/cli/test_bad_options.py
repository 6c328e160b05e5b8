"""Options outside their bounds, and interruptions before a run has begun: a sentence and an exit code each."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import Lila, run_lila


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--samples", "1000000000"), 5, "1,000,000,000 views of a single example need"),
        (("--rank-timeout", "nan"), 2, "'nan' is not a number of seconds"),
        (("--rank-timeout", "-1"), 2, "'-1' is not a number of seconds"),
        (("--rank-timeout", "1e30"), 2, "'1e30' is not a number of seconds"),
        (("--rank-timeout", "soon"), 2, "'soon' is not a number of seconds"),
        (("--init", "0.1,nan"), 2, "'0.1,nan' is not finite"),
        (("--augment", ""), 2, "no name in an empty text"),
        (("--device", "meta"), 2, "The device 'meta' cannot be used"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(
    lila: Lila, photos: Path, tmp_path: Path, options: tuple[str, str], code: int, words: str
) -> None:
    done = lila("train", photos, "--model", "mlp", "--out", tmp_path / "run", "=".join(options))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


def test_ctrl_c_while_modules_are_imported_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)
    done = run_lila("train", "digits")
    assert done.returncode == 130
    assert done.stderr == "lila: interrupted\n"


INTERRUPTED = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
imported = builtins.__import__
def interrupt(name, *rest):
    if name == "torch":
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest)
from lila.cli import main
builtins.__import__ = interrupt
sys.exit(main(["train", "digits"]))
"""


def test_ctrl_c_during_the_import_of_torch_leaves_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "lila: interrupted\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_at_once(trained: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "images.png"
    os.mkfifo(pipe)

    def late(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        for arguments in (("predict", str(trained), str(pipe)), ("train", str(pipe))):
            done = run_lila(*arguments)
            assert done.returncode == 3
            assert f"{pipe} cannot be read: it is neither a regular file nor a folder" in done.stderr
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
