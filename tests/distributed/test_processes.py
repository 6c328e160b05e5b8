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


def torchrun(processes: int, folder: Path, **todos: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Start the worker in so many processes, which do some things one after the other, each in a folder of its name."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [*command, str(WORKER), str(folder), json.dumps(todos)],
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


FULL_TURN: dict[str, Any] = {"epochs": 60, "batch_size": 25, "microbatch": 25, "samples": 8, "hyper_every": 1}
FULL_TURN |= {"eta_lr": 1e-4, "eta_lr_end": 1e-4}  # so that a look at the full turn alone gets there
CASES: dict[str, dict[str, Any]] = {
    "kron": {},
    "streamed": {"stream": True, "settings": {"batch_size": 3}},
    "diag": {"settings": {"structure": "diag"}},
    "probed": {"settings": {"passes": "probed"}},
    "unbiased": {"settings": {"averages": "unbiased", "noise": "independent"}},
    "full": {"settings": {"structure": "full", "passes": "exact"}},
    "sampled": {"settings": {"passes": "sampled", "curvature": "ef"}},
    "augerino": {"settings": {"method": "augerino"}},
    "full_turn": {"start": 1.6, "count": 100, "settings": FULL_TURN},
}
"""What processes do. The last of the streamed batches of three examples has two, fewer than there are processes."""


FEW = {"epochs": 1, "batch_size": 400, "microbatch": 50, "method": "augerino"}
TOGETHER: dict[str, dict[str, Any]] = {
    "kron": CASES["kron"],
    "streamed": CASES["streamed"],
    "few": {"stream": True, "count": 400, "settings": FEW},
    "other_data": {"other_data": 5},
    "other_seed": {"other_seed": True},
    "not_finite": {"fault": "nan", "at": 1, "after": 20},  # the last one, as the fault stays
}
"""What the same processes do one after the other: to start them takes longest."""
RANKS = range(3)  # of these processes


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what the processes found."""
    folder = tmp_path_factory.mktemp("together")
    ended = torchrun(len(RANKS), folder, **TOGETHER)
    assert ended.returncode == 0, ended.stderr
    return folder


def assert_agree(case: str, results: list[Any], alone: Any) -> None:
    for result in results:
        assert_same(result, alone)
        assert len(result["hessians"]) == (case != "augerino")
        for one, other in zip(result["hessians"], alone["hessians"], strict=True):
            assert one == pytest.approx(other, rel=1e-6)
        assert result["weights"] == results[0]["weights"]  # to the bit


@pytest.mark.parametrize("case", ["kron", "streamed"])
def test_processes_agree_with_one(case: str, together: Path, tmp_path: Path) -> None:
    results = [found(together / case, rank) for rank in RANKS]
    assert_agree(case, results, worker.found(tmp_path, CASES[case], Ranks()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_agree_with_one_in_every_case(case: str, processes: int, tmp_path: Path) -> None:
    alone = worker.found(tmp_path, CASES[case], Ranks())
    assert (alone["ranges"]["rotation"] > 3.0) == (case == "full_turn")
    done = torchrun(processes, tmp_path, case=CASES[case])
    assert done.returncode == 0, done.stderr
    assert_agree(case, [found(tmp_path / "case", rank) for rank in range(processes)], alone)


def test_a_process_does_not_read_everything(together: Path) -> None:
    """Of one epoch and a last estimate it reads its share, and the few by which data and network are checked."""
    for rank in RANKS:
        assert found(together / "few", rank)["read"] < 290  # two thirds, one of them shuffled, and sixteen


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 4])
def test_a_run_of_two_goes_on_with_another_number_of_processes(tmp_path: Path, processes: int) -> None:
    whole = worker.found(tmp_path, {}, Ranks())
    stopped = torchrun(2, tmp_path, it={"folder": True, "fault": "die", "at": 1, "after": 120})
    assert stopped.returncode != 0
    assert not (tmp_path / "it" / "found-0.json").exists()
    run = tmp_path / "it" / "run"
    identity = read_description(run).run
    assert read_checkpoint(run, identity, epochs=4)[1] > 0
    before = (run / "history.jsonl").read_text().splitlines()[0]
    resume = {"folder": True, "resume": True}
    if processes == 1:
        assert_same(worker.found(tmp_path / "it", resume, Ranks()), whole)
    else:
        assert torchrun(processes, tmp_path, it=resume).returncode == 0
        assert_same(found(tmp_path / "it"), whole)
    assert (run / "history.jsonl").read_text().splitlines()[0] == before  # not done again


def test_a_rank_that_dies_ends_the_run_and_is_named(tmp_path: Path) -> None:
    started = time.monotonic()
    done = torchrun(2, tmp_path, it={"folder": True, "fault": "die", "at": 1})
    assert done.returncode != 0
    assert time.monotonic() - started < 60
    root = done.stderr.partition("Root Cause (first observed failure):")[2]
    assert "rank      : 1 " in root, done.stderr
    assert "SIGKILL" in root


def test_a_rank_that_hangs_ends_the_run_within_the_time_stated(tmp_path: Path) -> None:
    started = time.monotonic()
    done = torchrun(2, tmp_path, it={"folder": True, "fault": "hang", "at": 1, "timeout": 5})
    assert done.returncode != 0
    assert time.monotonic() - started < 90
    assert "rank 1 died or did not answer in time" in done.stderr, done.stderr


def test_a_value_that_is_not_finite_at_one_rank_ends_all_with_the_same_error(together: Path) -> None:
    for rank in RANKS:
        error = found(together / "not_finite", rank)["error"]
        found_first = "training loss|log-likelihood of a batch"
        assert re.match(rf"NumericalError: Epoch \d: The ({found_first}).* is not finite", error)


@pytest.mark.slow
def test_bad_data_at_one_rank_ends_all_with_its_reason(tmp_path: Path) -> None:
    done = torchrun(2, tmp_path, it={"nan_at": 1, "other_data": 0})
    assert done.returncode != 0
    assert "rank 1 failed: DataError: The input of example 22 contains NaN" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["other_data", "other_seed"])
def test_processes_that_were_started_differently_refuse(name: str, together: Path) -> None:
    reason = {"other_data": "their examples differ", "other_seed": "their settings differ"}[name]
    for rank in RANKS:
        assert reason in found(together / name, rank)["error"]  # each says so
