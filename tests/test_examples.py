import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_toy_example_runs_and_leaves_its_picture(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "toy.py"), "--steps", "3", "--samples", "4", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Learned: rotation by up to" in done.stdout
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_of_why_the_evidence_prefers_a_range_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "evidence.png"
    options = ["--images", "40", "--epochs", "1", "--seeds", "1", "--ranges", "0,90,180", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["evidence_of_ranges.py", *options])
    runpy.run_path(str(EXAMPLES / "evidence_of_ranges.py"), run_name="__main__")
    *rows, _, best = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["±", "±", "±180.0°"]
    assert best.startswith("Most evidence: ±")
    assert picture.read_bytes().startswith(b"\x89PNG")
