import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from commands import QUICK, Lila

MODEL = ("--model", "small_lila:small_mlp")  # which other processes know too


def options(photos: Path, out: Path) -> list[object]:
    return ["train", photos, *MODEL, "--init", "0.1", "--out", out, "--seed", "3", "--arithmetic", "auto", *QUICK]


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_are_runs_of_their_own_and_their_spread_is_printed(
    lila: Lila, photos: Path, tmp_path: Path, jobs: int
) -> None:
    out = tmp_path / "runs"
    done = lila(*options(photos, out), "--seeds", 2, "--jobs", jobs, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["seeds"] == [3, 4]
    each = [json.loads(lila("show", out / f"seed{seed}", *MODEL, "--json").stdout) for seed in (3, 4)]
    rotations = [record["ranges"]["rotation"] for record in each]
    assert rotations[0] != rotations[1]
    assert summary["ranges"]["rotation"]["mean"] == pytest.approx(mean(rotations))
    assert summary["ranges"]["rotation"]["standard_deviation"] == pytest.approx(stdev(rotations))
    assert summary["evidence"]["mean"] == pytest.approx(mean(r["evidence"]["value"] for r in each))
    assert json.loads((out / "seed4" / "run.json").read_text())["task"]["recipe"]["seed"] == 4
    whole = lila("show", out, *MODEL)
    assert "There are runs inside of it, such as" in whole.stderr
    assert "seed3" in whole.stderr
    again = lila(*options(photos, out), "--seeds", 3, "--jobs", 1, "--save-posterior")  # goes on, with one seed more
    assert again.returncode == 0, again.stderr
    assert (out / "seed5" / "posterior.safetensors").exists()
    assert "lila, 3 seeds" in again.stdout
    assert "standard deviation" in again.stdout
    assert "seed 5: done (3 of 3)" in again.stderr


def test_a_seed_that_fails_keeps_no_other_from_being_done(lila: Lila, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    assert lila(*options(photos, out)[:-1], "--out", out / "seed3", "--epochs", 1).returncode == 0
    done = lila(*options(photos, out), "--seeds", 2)
    assert done.returncode == 1
    assert "1 of 2 trainings failed. seed 3:" in done.stderr
    assert "seed3 already holds a run" in done.stderr
    assert (out / "seed4" / "result.json").exists()


def test_what_cannot_be_done_with_seeds_is_said(lila: Lila, photos: Path, tmp_path: Path) -> None:
    assert "seeds must be" in lila(*options(photos, tmp_path / "runs"), "--seeds", 0).stderr
    assert "jobs must be" in lila(*options(photos, tmp_path / "runs"), "--seeds", 2, "--jobs", 0).stderr


def test_a_single_run_says_how_much_its_ranges_still_changed(lila: Lila, trained: Path) -> None:
    shown = json.loads(lila("show", trained, "--json").stdout)
    history = [json.loads(line) for line in (trained / "history.jsonl").read_text().splitlines()]
    spread = shown["spread_over_last_epochs"]
    assert spread["epochs"] == 2
    assert spread["deviations"]["rotation"] == pytest.approx(stdev(r["ranges"]["rotation"] for r in history))
    assert "standard deviation of the range over the last 2 epochs" in lila("show", trained).stdout
