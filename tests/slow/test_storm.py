"""Runs are killed at random moments and go on, 200 times: each ends as if it had never been interrupted, bit for bit.

LILA_STORM_KILLS sets another number of kills, LILA_STORM_SEED another seed of the first run and of the moments. Where
these hit a run depends on the machine.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from commands import run_lila

KILLS = int(os.environ.get("LILA_STORM_KILLS", "200"))
FIRST = int(os.environ.get("LILA_STORM_SEED", "0"))
OF_RUN = 20  # kills of a run at most; then it may end
EARLY = 0.2  # share of the kills that come at any time after the start, mostly while modules are imported
START, TRAINING = 4.0, 0.5  # seconds in which kills come: after the start, and after the first epoch of a process
NETWORK = """from torch import nn


def small(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 8), nn.Tanh(), nn.Linear(8, classes))
"""
MODEL = ["--model", "storm_network:small"]
OPTIONS = ["--subset", "40", "--samples", "2", "--burn-in", "0", "--batch-size", "20"]
OPTIONS += ["--epochs", "40", "--checkpoint-every", "1"]
PASSES = ("exact", "probed", "running")
Result = tuple[dict[str, torch.Tensor], dict[str, Any], list[dict[str, Any]]]


def options(seed: int) -> list[str]:
    return ["train", "digits", *MODEL, *OPTIONS, "--passes", PASSES[seed % len(PASSES)], "--seed", str(seed)]


def result(folder: Path) -> Result:
    """The tensors, the result and the history of a finished run, without what is measured and without its identity."""
    ended = json.loads((folder / "result.json").read_text())
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    for record in [ended, *history]:
        for name in ("run", "seconds", "peak_bytes"):
            record.pop(name, None)
    return load_file(folder / "checkpoint.safetensors"), ended, history


def killed(command: list[str], folder: Path, random: Random | None) -> bool:
    """Start a process in a folder and kill it at a random moment, or never; returns False if it had ended by then."""
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "lila", *command, "--progress", "lines"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": paths},
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        if random is not None:
            early = random.random() < EARLY
            if not early:
                process.stdout.readline()  # the header, which comes with the first epoch, or the end of the file
            timer = threading.Timer(random.uniform(0, START if early else TRAINING), process.kill)
            timer.start()
        _, told = process.communicate()
        if random is not None:
            timer.cancel()
    assert process.returncode in (0, -signal.SIGKILL), told
    return process.returncode != 0


@pytest.mark.slow
def test_runs_that_are_killed_at_random_moments_end_as_if_they_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storm_network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    random, kills, seed = Random(FIRST), 0, FIRST
    lives: list[int] = []
    while kills < KILLS:
        folder, of_run = tmp_path / f"killed-{seed}", 0
        while True:
            begun = (folder / "run.json").exists()
            command = ["resume", str(folder), *MODEL] if begun else [*options(seed), "--out", str(folder)]
            spared = of_run == OF_RUN or kills + of_run == KILLS
            if not killed(command, tmp_path, None if spared else random):
                break
            of_run += 1
        whole = tmp_path / f"whole-{seed}"
        done = run_lila(*options(seed), "--out", whole, "--progress", "silent")
        assert done.returncode == 0, done.stderr
        assert_same(result(folder), result(whole))
        assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}
        lives.append(of_run)
        kills, seed = kills + of_run, seed + 1
    print(f"{kills} kills of {len(lives)} runs, {min(lives)} to {max(lives)} of each")


def assert_same(one: Result, two: Result) -> None:
    assert one[0].keys() == two[0].keys()
    for name, tensor in one[0].items():
        assert torch.equal(tensor, two[0][name]), name
    assert one[1] == two[1]  # evidence and scores
    assert one[2] == two[2]  # ranges of every epoch
