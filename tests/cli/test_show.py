import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import lila as library
from commands import Lila
from lila.cli import COMMANDS


def test_show_tells_what_a_run_learned(lila: Lila, trained: Path) -> None:
    run = library.load(trained)
    done = lila("show", trained)
    assert done.returncode == 0
    assert done.stdout.rstrip() == run.summary()
    record = json.loads(lila("show", trained, "--json").stdout)
    assert record["ranges"] == dict(run.ranges)
    assert record["evidence"]["value"] == run.evidence.value
    assert record["test"] == run.test


def test_show_draws_a_run_that_train_made_and_one_that_python_made(lila: Lila, trained: Path, tmp_path: Path) -> None:
    assert lila("show", trained, "--picture", tmp_path / "one.png").returncode == 0
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    data = torch.rand(6, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    augmentation = library.Affine2d(["rotation"])
    library.fit(net, data, augmentation, folder=tmp_path / "run", epochs=2, burn_in=0, samples=2, progress="silent")
    assert lila("show", tmp_path / "run", "--picture", tmp_path / "two.svg").returncode == 0
    assert "<svg" in (tmp_path / "two.svg").read_text()
    failed = lila("show", tmp_path / "run", "--picture", tmp_path / "three.gif")
    assert failed.returncode == 2
    assert "three.gif" in failed.stderr


def test_show_of_nothing_says_so_and_fails(lila: Lila, tmp_path: Path) -> None:
    done = lila("show", tmp_path / "nowhere")
    assert done.returncode == 7
    assert "There is no run in" in done.stderr
    assert done.stdout == ""


def test_help_and_version(lila: Lila) -> None:
    assert lila("--version").stdout == f"lila {library.__version__}\n"
    assert all(command in lila("--help").stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_has_an_example_of_it(lila: Lila, command: str) -> None:
    done = lila(command, "--help")
    assert done.returncode == 0
    assert f"  lila {command}" in done.stdout.partition("example")[2]


def test_help_does_not_import_torch() -> None:
    call = "import sys, lila.cli\ntry: lila.cli.main(['--help'])\n"
    code = call + "finally: assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_wrong_use_of_the_command_line_is_exit_code_2(lila: Lila) -> None:
    assert lila("dance").returncode == 2
    assert lila("train").returncode == 2
    assert "'magic' is none of lila" in lila("train", "digits", "--method", "magic").stderr


def test_results_by_class_are_shown_and_kept(lila: Lila, trained: Path, tmp_path: Path) -> None:
    counts = json.loads((trained / "result.json").read_text())["confusion"]
    assert [sum(row) for row in counts] == [2, 2, 2]
    shown = lila("show", trained, "--classes").stdout
    for word in ("most often taken for", "blue", "Confusions"):
        assert word in shown
    assert json.loads(lila("show", trained, "--json").stdout)["confusion"] == counts
    assert lila("report", trained, "--out", tmp_path / "report.html").returncode == 0
    assert "most often taken for" in (tmp_path / "report.html").read_text()
