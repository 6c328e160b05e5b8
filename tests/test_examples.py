import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_toy_example_runs_and_leaves_its_picture(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "toy.py"), "--steps", "3", "--samples", "4", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Learned: rotation by up to" in done.stdout
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")
