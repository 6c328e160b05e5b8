"""The README's Python and commands run as they stand; only training is made shorter."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pages
from commands import QUICK, Lila

README = "README.md"


def test_the_readmes_python_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = pages.run(README)
    assert "rotation" in capsys.readouterr().out
    assert names["probabilities"].shape == (100, 10)


def test_lila_is_a_command_of_the_shell(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run("lila models > models.txt", shell=True, cwd=tmp_path, env=os.environ | {"PATH": path})
    assert done.returncode == 0
    assert "resnet-8-8" in (tmp_path / "models.txt").read_text()


def test_the_readmes_commands_run(lila: Lila, tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.chdir(tmp_path)
    commands = [
        line for block in pages.blocks(README, "console") for line in block.splitlines() if line.startswith("lila ")
    ]
    assert len(commands) == 6
    for command in commands:
        _, *words = shlex.split(command)
        words, file = (words[:-2], words[-1]) if ">" in words else (words, os.devnull)
        if words[0] == "train":
            words += [*QUICK, *(["--subset", "60"] if words[1] == "digits" else [])]
        done = lila(*words)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        Path(file).write_text(done.stdout)
    assert (tmp_path / "ranges.png").read_bytes().startswith(b"\x89PNG")
    assert "rotation" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "classes.csv").read_text().count("\n") == 31


def test_the_readme_reads_on_a_package_index_too() -> None:
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]+)\)", pages.read(README)))
