"""An experiment from outside the package: defined here, registered with a line, and run by `lila reproduce`."""

import csv
import inspect
import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from math import pi
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import lila.reproduce.paper  # noqa: F401  (before the registries are copied)
from lila.cli import main
from lila.errors import ArgumentError
from lila.reproduce import (
    Cell,
    Experiment,
    Job,
    Result,
    Scale,
    Summary,
    Surroundings,
    Verdict,
    group_seeds,
    register_experiment,
    register_work,
)
from lila.reproduce.engine import registry
from lila.reproduce.engine.jobs import Work
from lila.results.tables import Table, spread

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "extending.md"

POINTS = {Scale.SMALL: (100, 10_000), Scale.PAPER: (10_000, 1_000_000)}


def estimate_pi(arguments: Mapping[str, Any], surroundings: Surroundings) -> Result:
    """Estimate pi from the share of random points of the unit square that lie in the quarter disc."""
    generator = random.Random(arguments["seed"])
    points = [(generator.random(), generator.random()) for _ in range(arguments["points"])]
    return {"estimate": 4 * mean(x * x + y * y < 1 for x, y in points)}


class MonteCarloPi(Experiment):
    """Monte Carlo estimates of pi with few and with many points."""

    name = "monte-carlo-pi"
    title = "Monte Carlo estimates of pi"
    claim = "A hundred times as many points give a better estimate."
    reproduced_if = "the mean absolute error with many points is below the one with few"
    small_seeds = 2

    def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
        return {
            (points, seed): Job("monte-carlo-pi", {"points": points, "seed": seed})
            for seed in range(seeds)
            for points in POINTS[scale]
        }

    def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
        estimates = {cell[0]: [run["estimate"] for run in runs] for cell, runs in group_seeds(results).items()}
        errors = {points: mean(abs(value - pi) for value in values) for points, values in estimates.items()}
        few, many = POINTS[scale]
        found = f"mean error {errors[many]:.3f} in place of {errors[few]:.3f}"
        verdict = Verdict("many points estimate pi better than few", errors[many] < errors[few], found)
        entries = [[f"{points:,}", spread(values, 3), f"{errors[points]:.3f}"] for points, values in estimates.items()]
        table = Table("Estimates of pi, and their mean absolute error", ["points", "estimate", "error"], entries)
        rows = [{"points": cell[0], "seed": cell[1], **result} for cell, result in results.items()]
        return Summary([table], [verdict], rows=rows)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the experiment, in registries that are forgotten after the test."""
    for name in ("EXPERIMENTS", "WORKS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    register_work("monte-carlo-pi", estimate_pi)
    register_experiment(MonteCarloPi())


def test_the_documentation_shows_this_experiment() -> None:
    shown = DOCUMENTATION.read_text()
    for definition in (estimate_pi, MonteCarloPi):
        assert inspect.getsource(definition) in shown
    assert 'register_work("monte-carlo-pi", estimate_pi)\nregister_experiment(MonteCarloPi())' in shown


def run_in_this_process(folder: Path, *options: str) -> tuple[str, str]:
    """Run the experiment; returns what is printed to the standard output and to the standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["reproduce", "monte-carlo-pi", "--out", str(folder), *options]) == 0
    return out.getvalue(), err.getvalue()


def run_the_documented_script(folder: Path, *options: str) -> tuple[str, str]:
    """Run the script of the documentation by itself, each job in a process of its own."""
    section = DOCUMENTATION.read_text().partition("## An experiment")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    (folder / "pi.py").write_text(code)
    command = [sys.executable, "pi.py", "monte-carlo-pi", "--jobs", "2", "--out", str(folder), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(("run", "seeds"), [(run_in_this_process, 2), (run_the_documented_script, 1)])
def test_it_is_run_and_its_page_written(run: Callable[..., tuple[str, str]], seeds: int, tmp_path: Path) -> None:
    out, err = run(tmp_path, *([] if seeds == MonteCarloPi.small_seeds else ["--seeds", str(seeds)]))
    jobs = MonteCarloPi().jobs(Scale.SMALL, seeds)
    assert f"monte-carlo-pi: {len(jobs)} of {2 * seeds}" in err
    assert "held      many points estimate pi better than few" in out
    page = (tmp_path / "monte-carlo-pi" / "README.md").read_text()
    assert "**Claim.** A hundred times as many points give a better estimate." in page
    assert "| yes | many points estimate pi better than few |" in page
    assert "| 10,000 | 3.1" in page
    assert "All claims held at this scale." in page
    assert f"| [monte-carlo-pi](monte-carlo-pi/README.md) | {seeds} |" in (tmp_path / "README.md").read_text()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "monte-carlo-pi" / "data.csv").read_text())))
    expected = {cell: estimate_pi(job.arguments, Surroundings(tmp_path)) for cell, job in jobs.items()}
    assert {(int(row["points"]), int(row["seed"])): float(row["estimate"]) for row in rows} == {
        cell: pytest.approx(result["estimate"], rel=1e-4) for cell, result in expected.items()
    }


def test_a_second_run_does_nothing_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "monte-carlo-pi", "--out", str(tmp_path), "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").glob("*.json")}
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").glob("*.json")} == times
    assert not any((tmp_path / "jobs" / "unfinished").iterdir())


def test_it_is_listed_beside_those_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--json"]) == 0
    titles = json.loads(capsys.readouterr().out)
    assert titles["monte-carlo-pi"] == "Monte Carlo estimates of pi"
    assert {"toy", "accuracy", "timing"} <= titles.keys()


def test_a_result_that_names_another_work_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The function that does a job is found by the job; what a file says is compared with it, never looked up."""
    command = ["reproduce", "monte-carlo-pi", "--seeds", "1", "--out", str(tmp_path)]
    assert main(command) == 0
    path = next((tmp_path / "jobs").glob("*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"work": "images"}))
    assert main(command) == 3
    assert f"{path} is damaged: its work and arguments are those of another job." in capsys.readouterr().err


class TestWhatCannotBeRegistered:
    def test_a_function_that_no_other_process_can_import(self) -> None:
        def inner(arguments: Mapping[str, Any], surroundings: Surroundings) -> Result:
            return {}

        functions: list[Work] = [inner, lambda arguments, surroundings: {}]
        for function in functions:
            with pytest.raises(ArgumentError, match=r"'inner' is done by .* another process cannot import"):
                register_work("inner", function)

    def test_a_name_that_belongs_to_another(self) -> None:
        class Toy(MonteCarloPi):
            name = "toy"

        with pytest.raises(ArgumentError, match=r"'toy' belongs to lila.reproduce.paper.toy.Toy, so test_experiment\."):
            register_experiment(Toy())
        with pytest.raises(ArgumentError, match=r"'images' belongs to lila.reproduce.engine.images.work"):
            register_work("images", estimate_pi)

    @pytest.mark.parametrize("name", ["all", "jobs", "", "../up", "Two words"])
    def test_a_name_that_is_no_folder_of_its_own(self, name: str) -> None:
        experiment = MonteCarloPi()
        experiment.name = name  # type: ignore[misc]
        with pytest.raises(ArgumentError, match=re.escape(f"cannot be named {name!r}")):
            register_experiment(experiment)

    def test_an_experiment_without_a_claim(self) -> None:
        class Mute(Experiment):
            name = "mute"
            title = "An experiment that claims nothing"

            def jobs(self, scale: Scale, seeds: int) -> dict[Cell, Job]:
                return {}

            def summarise(self, results: Mapping[Cell, Result], scale: Scale) -> Summary:
                return Summary([], [])

        with pytest.raises(ArgumentError, match=r"Mute has no 'claim'; give it as a class attribute"):
            register_experiment(Mute())

    def test_a_job_of_unknown_work_is_an_error_that_says_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delitem(registry.WORKS, "monte-carlo-pi")
        assert main(["reproduce", "monte-carlo-pi", "--out", str(tmp_path)]) == 2
        assert "Call register_work('monte-carlo-pi', function)" in capsys.readouterr().err
