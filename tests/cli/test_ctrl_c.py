"""What is said when a training is interrupted."""

import signal
from pathlib import Path
from unittest import mock

import pytest

from commands import QUICK, Lila
from lila.cli.interruption import resumable, resume_command
from lila.training.description import OwnCode


def test_ctrl_c_names_the_command_that_goes_on(lila: Lila, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my runs"
    with mock.patch("lila.training.loop.train_epoch", side_effect=KeyboardInterrupt):
        done = lila("train", photos, "--model", "mlp", "--out", folder, *QUICK)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == f"lila: interrupted; go on with: lila resume '{folder}'"
    assert lila("resume", folder, "--progress", "silent").returncode == 0


def test_ctrl_c_before_there_is_a_run_names_no_command(lila: Lila, photos: Path, tmp_path: Path) -> None:
    with mock.patch("lila.training.fit.new_state", side_effect=KeyboardInterrupt):
        done = lila("train", photos, "--model", "mlp", "--out", tmp_path / "run", *QUICK)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "lila: interrupted")


def test_sigterm_names_it_too(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), resumable(trained, OwnCode(), first=True):
        raise SystemExit(128 + signal.SIGTERM)
    assert capsys.readouterr().err == f"lila: interrupted; go on with: lila resume {trained}\n"


def test_code_of_ones_own_is_named_again() -> None:
    own = OwnCode(model="mine:net", augmentation="affine")
    assert resume_command(Path("runs/one"), own) == "lila resume runs/one --model mine:net"
