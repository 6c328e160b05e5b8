import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn

import lila


def run_lila(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).parent / "lila"
    return subprocess.run([str(command), *arguments], capture_output=True, text=True, check=False)


def trained(folder: Path) -> lila.Run:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    data = torch.rand(6, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    return lila.fit(net, data, lila.Affine2d(["rotation"]), test=data, folder=folder, epochs=2, burn_in=0, samples=2)


def test_show_tells_what_a_run_learned(tmp_path: Path) -> None:
    run = trained(tmp_path)
    done = run_lila("show", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.rstrip() == run.summary()
    record = json.loads(run_lila("show", str(tmp_path), "--json").stdout)
    assert record["ranges"] == dict(run.ranges)
    assert record["evidence"]["value"] == run.evidence.value
    assert record["test"] == run.test


def test_show_of_nothing_says_so_and_fails(tmp_path: Path) -> None:
    done = run_lila("show", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "There is no run in" in done.stderr
    assert done.stdout == ""


def test_help_and_version() -> None:
    assert run_lila("--version").stdout == f"lila {version('lila-torch')}\n"
    assert "show" in run_lila().stdout
    assert "example: lila show" in run_lila("show", "--help").stdout
