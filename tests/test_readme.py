"""The README's Python and commands run as they stand; only training is made shorter."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import QUICK

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_readmes_python_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks("python")) == 3
    assert "rotation" in capsys.readouterr().out
    assert names["probabilities"].shape == (100, 10)


def test_the_readmes_commands_run(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "photos").symlink_to(photos)
    commands = [line for block in blocks("console") for line in block.splitlines() if line.startswith("lila ")]
    assert len(commands) == 8
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
    for command in commands:
        shorter = f"{command} {' '.join(QUICK)}" if command.startswith("lila train") else command
        done = subprocess.run(shorter, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert (tmp_path / "ranges.png").read_bytes().startswith(b"\x89PNG")
    assert "rotation" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "classes.csv").read_text().count("\n") == 31
