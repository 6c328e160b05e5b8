"""`lila compare` on a few digits."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import lila as package
from commands import Lila
from lila.compare.registry import SYSTEMS, choose_systems
from lila.compare.runner import job_of
from lila.compare.search import run_search
from lila.compare.system import Conditions

QUICK = ("--subset", 30, "--epochs", 2, "--width", 4, "--samples", 2, "--batch-size", 20)
DIGITS = ("compare", "digits", "--transform", "partially-rotated", *QUICK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


@pytest.fixture(scope="module")
def compared(lila: Lila, folder: Path) -> dict[str, Any]:
    """What a comparison of a few systems prints."""
    chosen = "validation-gradient,kernel-bound,fixed,trivial-augment"
    done = lila(*DIGITS, "--systems", chosen, "--out", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def conditions() -> Conditions:
    task = package.load_data(package.Recipe("digits", "partially-rotated", 40), in_memory=True)
    return Conditions(task, width=4, epochs=3, samples=2, batch_size=20)


def test_every_system_has_its_row(compared: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in compared["systems"]}
    assert list(rows) == ["lila", "kernel-bound", "validation-gradient", "trivial-augment", "fixed"]
    for name, row in rows.items():
        (result,) = row["results"]
        assert 0 <= result["found"]["accuracy"] <= 1
        assert result["found"]["seconds"] > 0
        assert (row["inverse"] is not None) == SYSTEMS[name].learns
    assert rows["lila"]["time_ratios"] == [1]
    assert rows["validation-gradient"]["needs_validation"]
    ranges = rows["fixed"]["results"][0]["found"]["ranges"]
    assert ranges == pytest.approx(compared["truth"], rel=1e-5)
    assert rows["trivial-augment"]["results"][0]["found"]["ranges"] is None


def test_a_system_begins_with_the_same_weights_as_lila(compared: dict[str, Any]) -> None:
    assert torch.equal(*(next(conditions().network().parameters()) for _ in range(2)))


def test_starting_again_repeats_nothing_and_writes_the_pages(
    lila: Lila, folder: Path, compared: dict[str, Any]
) -> None:
    again = lila(*DIGITS, "--systems", "kernel-bound", "--out", folder)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("there already") == 4  # two systems, each of them with 1/η too
    assert "evidence bound by tangent kernels" in again.stdout
    page = (folder / "comparison.md").read_text()
    assert "| lila |" in page
    assert compared["command"].partition(" --systems ")[0] + " --systems lila,kernel-bound" in page
    assert (folder / "comparison.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((folder / "comparison.json").read_text())
    assert [row["name"] for row in written["systems"]] == ["lila", "kernel-bound"]
    html = (folder / "comparison.html").read_text()
    assert re.search(r'<div class="scroll"[^>]*><table>\s*<caption>', html)  # the same table as in reports
    assert "--accent" in html  # and the same style
    assert "rotation (±90.0°)" in html
    assert '<img src="data:image/png;base64,' in html


def test_other_settings_have_other_results() -> None:
    shared, system = conditions(), SYSTEMS["lila"]
    changes: list[dict[str, Any]] = [{}, {"epochs": 4}, {"seed": 1}, {"inverse": True}, {"width": 5}]
    assert len({job_of(system, shared.changed(**change)).key for change in changes}) == len(changes)
    assert job_of(system, shared).key != job_of(SYSTEMS["augerino"], shared).key
    assert job_of(system, shared) == job_of(system, shared.changed(lila_seconds=1.0))  # which is measured


def test_what_cannot_be_compared_is_refused(lila: Lila) -> None:
    assert "no system named 'gpt'" in lila(*DIGITS, "--systems", "gpt").stderr
    for missing in (("compare",), ("compare", "digits"), ("compare", "digits", "--transform", "original")):
        done = lila(*missing)
        assert done.returncode == 2
        assert "whose transformation is known" in done.stderr
    assert list(json.loads(lila("compare", "--list", "--json").stdout)) == list(SYSTEMS)
    assert [system.name for system in choose_systems("search, augerino")] == ["lila", "augerino", "search"]


@pytest.mark.parametrize("inverse", [False, True])
def test_a_search_makes_trials_and_trains_the_best(inverse: bool) -> None:
    pytest.importorskip("optuna")
    shared = conditions().changed(inverse=inverse, lila_seconds=0.02)
    found = run_search(shared)
    assert found.details["trials"] >= 1
    assert found.ranges is not None
    assert 0 < found.ranges["rotation"] <= 3.1416


def test_held_out_data_and_the_rest_are_all_training_data() -> None:
    shared = conditions()
    rest, held_out = shared.held_out()
    assert len(held_out[0]) == 8
    both = torch.cat([rest[0], held_out[0]]).flatten(1)
    assert torch.equal(both.sum(1).sort().values, shared.train[0].flatten(1).sum(1).sort().values)


@pytest.mark.slow
def test_all_systems_run(lila: Lila, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    done = lila(*DIGITS, "--seeds", 2, "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    systems = json.loads(done.stdout)["systems"]
    assert [row["name"] for row in systems] == list(SYSTEMS)
    assert all(len(row["results"]) == 2 for row in systems)
