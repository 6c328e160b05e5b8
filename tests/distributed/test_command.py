"""`torchrun -m lila train`: what one process learns, and on from the last checkpoint when a process is killed."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from commands import Lila
from lila.data.digits import read_digits
from small_lila import COMMAND, environment

OPTIONS = ["--model", "mlp", "--transform", "partially-rotated", "--samples", "2", "--burn-in", "1"]
OPTIONS += ["--microbatch", "10", "--checkpoint-every", "1"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Some digits as arrays: each process would spend a second on the import of scikit-learn."""
    folder, data = tmp_path_factory.mktemp("digits"), read_digits()
    for name, part, count in (("train", data.train, 60), ("test", data.test, 40)):
        chosen = torch.arange(count)
        np.save(folder / f"x_{name}.npy", part.images(chosen).numpy())
        np.save(folder / f"y_{name}.npy", part.labels[chosen].numpy())
    return str(folder)


def torchrun(*options: str) -> subprocess.Popen[str]:
    """Start a command of lila in two processes."""
    line = [*TORCHRUN, *options]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def test_two_processes_train_what_one_does(lila: Lila, digits: str, tmp_path: Path) -> None:
    train = ["train", digits, *OPTIONS, "--epochs", "3", "--json", "--out"]
    alone = lila(*train, tmp_path / "one")
    assert alone.returncode == 0, alone.stderr
    both = torchrun(*COMMAND, *train, str(tmp_path / "two"))
    told, err = both.communicate(timeout=200)
    assert both.returncode == 0, err
    one, two = json.loads(alone.stdout), json.loads(told)  # one process alone speaks
    assert two["ranges"] == pytest.approx(one["ranges"], rel=1e-2)
    assert two["evidence"]["value"] == pytest.approx(one["evidence"]["value"], rel=1e-3)
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert names[0] == names[1]
    other = torchrun("--max-restarts=1", *COMMAND, *train, str(tmp_path / "two"), "--seed", "1")
    _, err = other.communicate(timeout=200)
    assert other.returncode != 0  # also when torchrun starts it anew, as it is not the run that is there
    # From whichever process is first: torchrun then ends the other.
    assert re.search(r"lila, rank [01]: .*two already holds a run", err), err


def test_torchrun_goes_on_from_the_last_checkpoint_when_a_rank_is_killed(digits: str, tmp_path: Path) -> None:
    train = ["train", digits, *OPTIONS, "--epochs", "60", "--progress", "silent", "--no-baseline", "--out"]
    process = torchrun("--max-restarts=1", *COMMAND, *train, str(tmp_path / "run"))
    history = tmp_path / "run" / "history.jsonl"
    deadline = time.monotonic() + 120
    while not history.exists() or len(history.read_text().splitlines()) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = history.read_text().splitlines()[:2]
    children = psutil.Process(process.pid).children()
    victim = next(child for child in children if child.environ().get("RANK") == "1")
    victim.send_signal(signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert (tmp_path / "run" / "result.json").exists()
    assert history.read_text().splitlines()[:2] == before  # with the seconds they took: they were not done again
    epochs = [json.loads(line)["epoch"] for line in history.read_text().splitlines()]
    assert epochs == list(range(1, 61))
    assert "exitcode: -9" in err or "SIGKILL" in err
