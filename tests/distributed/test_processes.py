"""Several real processes over the loopback give what one gives, and end together when one fails."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import worker

from lila._util.ranks import Ranks
from lila.training.checkpoint import read_checkpoint
from lila.training.description import read_description

WORKER = Path(__file__).with_name("worker.py")


def torchrun(processes: int, folder: Path, todo: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Start the worker in so many processes."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [*command, str(WORKER), str(folder), json.dumps(todo)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )


def found(folder: Path, rank: int = 0) -> Any:
    return json.loads((folder / f"found-{rank}.json").read_text())


def assert_same(one: Any, other: Any) -> None:
    for name in ("evidence", "ranges", "weights", "loss", "test"):
        assert one[name] == pytest.approx(other[name], rel=1e-8, abs=1e-10), name


CASES: dict[str, dict[str, Any]] = {
    "kron": {},
    "streamed, batches smaller than the group": {"stream": True, "settings": {"batch_size": 3}},
    "diag": {"settings": {"structure": "diag"}},
    "probed": {"settings": {"passes": "probed"}},
    "unbiased": {"settings": {"averages": "unbiased", "noise": "independent"}},
    "full": {"settings": {"structure": "full", "passes": "exact"}},
    "sampled": {"settings": {"passes": "sampled", "curvature": "ef"}},
    "augerino": {"settings": {"method": "augerino"}},
}
"""What processes do. The last batch of three examples has two, fewer than there are processes."""


QUICK = {("kron", 2), ("streamed, batches smaller than the group", 4)}


@pytest.mark.parametrize(
    ("case", "processes"),
    [
        pytest.param(case, processes, marks=() if (case, processes) in QUICK else pytest.mark.slow)
        for case in CASES
        for processes in (2, 4)
    ],
)
def test_processes_agree_with_one(case: str, processes: int, tmp_path: Path) -> None:
    alone = worker.found(tmp_path, CASES[case], Ranks())
    done = torchrun(processes, tmp_path, CASES[case])
    assert done.returncode == 0, done.stderr
    results = [found(tmp_path, rank) for rank in range(processes)]
    for result in results:
        assert_same(result, alone)
        assert len(result["hessians"]) == (case != "augerino")
        for one, other in zip(result["hessians"], alone["hessians"], strict=True):
            assert one == pytest.approx(other, rel=1e-6)
        assert result["weights"] == results[0]["weights"]  # to the bit


def test_a_process_does_not_read_everything(tmp_path: Path) -> None:
    """Of one epoch and a last estimate it reads its share, and the few by which data and network are checked."""
    settings = {"epochs": 1, "batch_size": 400, "microbatch": 50, "method": "augerino"}
    todo = {"stream": True, "count": 400, "settings": settings}
    assert torchrun(4, tmp_path, todo).returncode == 0
    for rank in range(4):
        assert found(tmp_path, rank)["read"] < 220  # two quarters, one of them shuffled, and sixteen


@pytest.mark.parametrize("processes", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_run_of_two_goes_on_with_another_number_of_processes(tmp_path: Path, processes: int) -> None:
    whole = worker.found(tmp_path, {}, Ranks())
    stopped = torchrun(2, tmp_path, {"folder": True, "fault": "die", "at": 1, "after": 120})
    assert stopped.returncode != 0
    assert not (tmp_path / "found-0.json").exists()
    identity = read_description(tmp_path / "run").run
    assert read_checkpoint(tmp_path / "run", identity, epochs=4)[1] > 0
    before = (tmp_path / "run" / "history.jsonl").read_text().splitlines()[0]
    assert torchrun(processes, tmp_path, {"folder": True, "resume": True}).returncode == 0
    assert_same(found(tmp_path), whole)
    assert (tmp_path / "run" / "history.jsonl").read_text().splitlines()[0] == before  # not done again


def test_a_rank_that_dies_ends_the_run_and_is_named(tmp_path: Path) -> None:
    started = time.monotonic()
    done = torchrun(3, tmp_path, {"folder": True, "fault": "die", "at": 2})
    assert done.returncode != 0
    assert time.monotonic() - started < 60
    root = done.stderr.partition("Root Cause (first observed failure):")[2]
    assert "rank      : 2 " in root, done.stderr
    assert "SIGKILL" in root


def test_a_rank_that_hangs_ends_the_run_within_the_time_stated(tmp_path: Path) -> None:
    started = time.monotonic()
    done = torchrun(2, tmp_path, {"folder": True, "fault": "hang", "at": 1, "timeout": 5})
    assert done.returncode != 0
    assert time.monotonic() - started < 90
    assert "rank 1 died or did not answer in time" in done.stderr, done.stderr


def test_a_value_that_is_not_finite_at_one_rank_ends_all_with_the_same_error(tmp_path: Path) -> None:
    done = torchrun(2, tmp_path, {"fault": "nan", "at": 1, "after": 20})
    assert done.returncode != 0
    told = re.findall(r"NumericalError: Epoch \d: The training loss is not finite", done.stderr)
    assert len(told) == 2, done.stderr


def test_bad_data_at_one_rank_ends_all_with_its_reason(tmp_path: Path) -> None:
    done = torchrun(2, tmp_path, {"nan_at": 1, "other_data": 0})
    assert done.returncode != 0
    assert "rank 1 failed: DataError: The input of example 22 contains NaN" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("todo", "reason"),
    [({"other_data": 5}, "their examples differ"), ({"other_seed": True}, "their settings differ")],
)
def test_processes_that_were_started_differently_refuse(tmp_path: Path, todo: dict[str, Any], reason: str) -> None:
    done = torchrun(2, tmp_path, todo)
    assert done.returncode != 0
    assert done.stderr.count(reason) >= 2  # each says so
