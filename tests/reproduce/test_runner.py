"""Jobs are really done: once, side by side with the same results, and on from where they were interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import lila
from lila.cli import main
from lila.reproduce.engine.experiment import Scale, Verdict
from lila.reproduce.engine.images import Training, pictures, work
from lila.reproduce.engine.jobs import Job, Result, Surroundings
from lila.reproduce.engine.registry import EXPERIMENTS
from lila.reproduce.engine.results import accuracies
from lila.reproduce.engine.runner import Assignment, JobError, run_jobs
from lila.reproduce.engine.sheets import sheets
from lila.reproduce.engine.store import Store
from lila.reproduce.paper.comparison import Comparison, better
from lila.training.checkpoint import read_checkpoint
from lila.training.description import read_description
from lila.training.settings import Settings

TRAINING = Training(
    "digits",
    "mlp",
    Settings(epochs=3, batch_size=20, samples=2, burn_in=1, checkpoint_every=1, microbatch=20, structure="diag"),
    subset=40,
    version="partially-rotated",
)


class Tiny(Comparison):
    """Two methods on a few digits."""

    name = "tiny"
    title = "A tiny experiment"
    claim = "It runs."
    reproduced_if = "lila is more accurate"
    small_seeds = 1

    def trainings(self, scale: Scale) -> dict[str, Training]:
        return {"lila": TRAINING, "plain": TRAINING.changed(method="non-invariant")}

    def verdicts(self, runs: Mapping[str, list[Result]], scale: Scale) -> list[Verdict]:
        return [better("lila is more accurate", accuracies, runs["lila"], runs["plain"])]


class Lost(Tiny):
    """The same on data that there is not."""

    name = "lost"

    def trainings(self, scale: Scale) -> dict[str, Training]:
        return {label: replace(way, data="no-such-data") for label, way in super().trainings(scale).items()}


def learned(result: Result) -> Any:
    """All of a result but the times."""
    history = {name: column for name, column in result["history"].items() if name != "seconds"}
    return {name: value for name, value in result.items() if name != "peak_bytes"} | {"history": history}


def done(jobs: list[Job], folder: Path, at_once: int = 1) -> tuple[list[Any], list[Job]]:
    """What jobs found out, and which of them had to be done."""
    newly_done: list[Job] = []
    store = Store(folder)
    run_jobs(jobs, store, at_once=at_once, on_job_done=lambda job, *_: newly_done.append(job))
    return [learned(store.read(job)["result"]) for job in jobs], newly_done


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return list(Tiny().jobs(Scale.SMALL, 1).values())


@pytest.fixture(scope="module")
def results(jobs: list[Job], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("jobs")
    found, newly_done = done(jobs, folder)
    assert newly_done == jobs
    assert not any((folder / "unfinished").iterdir())
    return folder, found


def test_nothing_is_done_twice(jobs: list[Job], results: tuple[Path, list[Any]]) -> None:
    found, newly_done = done([*jobs, TRAINING.changed(seed=1).job()], results[0])
    assert newly_done == [TRAINING.changed(seed=1).job()]
    assert found[:2] == results[1]


def test_a_result_is_what_fit_gives(results: tuple[Path, list[Any]]) -> None:
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", subset=TRAINING.subset))
    torch.manual_seed(0)
    net = lila.make_model(TRAINING.model, task.shape, 10)
    run = lila.fit(net, task.train, lila.Affine2d(), test=task.test, progress="silent", settings=TRAINING.settings)
    assert results[1][0]["ranges"] == pytest.approx(dict(run.ranges), rel=1e-5)
    assert results[1][0]["evidence"]["value"] == pytest.approx(run.evidence.value, rel=1e-4)
    assert run.test is not None
    assert results[1][0]["test"] == pytest.approx(run.test, rel=1e-4)


BAD = replace(TRAINING, data="no-such-data").job()
FAILED = rf"job {BAD.key}: .*no-such-data"


def test_side_by_side_gives_the_same_and_an_error_keeps_no_other_from_being_done(
    jobs: list[Job], results: tuple[Path, list[Any]], tmp_path: Path
) -> None:
    store = Store(tmp_path)
    with pytest.raises(JobError, match=f"1 of 3 jobs failed. {FAILED}"):
        run_jobs([BAD, *jobs], store, at_once=2)
    assert store.missing([BAD, *jobs]) == [BAD]
    found, newly_done = done(jobs, tmp_path)
    assert not newly_done
    for one, other in zip(found, results[1], strict=True):
        assert one["ranges"] == pytest.approx(other["ranges"], rel=1e-3)
        assert one["test"]["accuracy"] == pytest.approx(other["test"]["accuracy"], abs=0.01)


def test_an_error_keeps_no_later_job_from_being_done(tmp_path: Path) -> None:
    good, store = TRAINING.changed(method="non-invariant").job(), Store(tmp_path)
    with pytest.raises(JobError, match=f"1 of 2 jobs failed. {FAILED}"):
        run_jobs([BAD, good], store)
    assert store.missing([BAD, good]) == [BAD]


def test_an_interrupted_job_goes_on_from_its_checkpoint(
    results: tuple[Path, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, job = Store(tmp_path), TRAINING.job()
    epochs = 0
    real = lila.training.loop._epoch  # type: ignore[attr-defined]

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal epochs
        epochs += 1
        if epochs == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr("lila.training.loop._epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job], store)
    assert store.missing([job]) == [job]
    found, _ = done([job], tmp_path)
    assert epochs == 4  # two, the one that was interrupted, and that again
    assert found[0]["ranges"] == results[1][0]["ranges"]
    assert found[0]["evidence"] == results[1][0]["evidence"]


def test_a_job_that_another_process_is_at_is_left_to_it(tmp_path: Path) -> None:
    store, job = Store(tmp_path), TRAINING.job()
    with store.claimed(job) as scratch:
        assert scratch is not None
        assert Assignment(job, work, store).carry_out() == 0
        assert store.missing([job]) == [job]
    with store.claimed(job) as again:
        assert again == scratch


def test_interrupted_side_by_side_all_end_with_their_checkpoints(tmp_path: Path) -> None:
    """More jobs than processes, none of which is begun after SIGTERM; the process ends with all of its own."""
    program = f"""
from pathlib import Path
from test_runner import TRAINING
from lila.reproduce.engine.runner import run_jobs
from lila.reproduce.engine.store import Store
jobs = [TRAINING.changed(epochs=100_000, seed=seed).job() for seed in range(5)]
run_jobs(jobs, Store(Path({str(tmp_path)!r})), at_once=2)
"""
    script = tmp_path / "script.py"
    script.write_text(f"if __name__ == '__main__':\n    exec({program!r})\n")
    path = os.pathsep.join(map(str, [*Path(__file__).parents[:2], os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen([sys.executable, str(script)], env=os.environ | {"PYTHONPATH": path})
    folder = tmp_path / "unfinished"
    try:
        until(lambda: len(list(folder.glob("*/checkpoint.safetensors"))) == 2)
    finally:
        process.terminate()
        code = process.wait(60)
    assert code == 128 + signal.SIGTERM
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 2
    for checkpoint in folder.glob("*/checkpoint.safetensors"):
        identity = read_description(checkpoint.parent).run
        assert read_checkpoint(checkpoint.parent, identity, epochs=1000)[1] > 0
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(script) in (p.info["cmdline"] or [])]


def until(met: Callable[[], bool], seconds: float = 90) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_images_are_kept_with_a_result(tmp_path: Path) -> None:
    result = work(TRAINING.changed(method="non-invariant").job().arguments, Surroundings(tmp_path))
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", subset=TRAINING.subset))
    assert isinstance(task.train, tuple)
    torch.testing.assert_close(pictures(result), task.train[0][:4], rtol=0, atol=0.5 / 255 + 1e-6)


class TestCommand:
    """`lila reproduce`."""

    @pytest.fixture(autouse=True)
    def _tiny(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setitem(EXPERIMENTS, "tiny", Tiny())
        monkeypatch.chdir(tmp_path)

    def test_it_lists_experiments(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["reproduce"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
        assert main(["reproduce", "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)) == list(EXPERIMENTS)

    def test_it_runs_one_and_writes_everything(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["reproduce", "tiny", "--report"]) == 0
        shown = capsys.readouterr()
        assert "Claim: It runs." in shown.out
        assert "tiny: 2 of 2" in shown.err
        folder = Path("results/small/tiny")
        names = {"README.md", "data.json", "data.csv", "tiny.png", "tiny.svg", "report.html"}
        assert {path.name for path in folder.iterdir()} == names
        assert "| [tiny](tiny/README.md) | 1 |" in (folder.parent / "README.md").read_text()
        assert main(["reproduce", "tiny", "--json"]) == 0
        again = capsys.readouterr()
        assert json.loads(again.out)[0]["experiment"] == "tiny"
        assert not again.err

    def test_shards_share_the_work(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["reproduce", "tiny", "--shard", "1/2"]) == 0
        first = capsys.readouterr()
        assert main(["reproduce", "tiny", "--shard", "2/2"]) == 0
        second = capsys.readouterr()
        jobs = Tiny().jobs(Scale.SMALL, 1).values()
        ones = sum(int(job.key, 16) % 2 == 0 for job in jobs)
        assert first.err.count(" s: ") == ones
        assert second.err.count(" s: ") == len(jobs) - ones
        assert "Claim" in second.out
        if ones < len(jobs):
            assert f"{len(jobs) - ones} jobs of others are not there yet" in first.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nothing"], "There is no experiment named 'nothing'; choose from toy, "),
            (["tiny", "--seeds", "0"], "seeds must be a whole number of at least 1"),
            (["tiny", "--jobs", "0"], "jobs must be a whole number of at least 1"),
            (["tiny", "--device", "toaster"], "There is no device 'toaster': give cpu, cuda"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["reproduce", *arguments]) == 2
        assert message in capsys.readouterr().err

    def test_times_are_not_shared_out(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(
            "lila.reproduce.engine.registry.EXPERIMENTS", {"tiny": Tiny(), "timing": EXPERIMENTS["timing"]}
        )
        assert main(["reproduce", "timing", "tiny", "--shard", "1/2"]) == 2
        assert "timing compares times" in capsys.readouterr().err
        assert not Path("results").exists()
        assert main(["reproduce", "all", "--shard", "1/2"]) == 0
        assert "timing is left out" in capsys.readouterr().err

    def test_an_error_in_one_experiment_does_not_keep_others_from_being_done(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("lila.reproduce.engine.registry.EXPERIMENTS", {"lost": Lost(), "tiny": Tiny()})
        assert main(["reproduce", "all", "--json"]) != 0
        shown = capsys.readouterr()
        assert [record["experiment"] for record in json.loads(shown.out)] == ["tiny"]
        assert "lost: 2 of 2 jobs failed" in shown.err
        assert "no-such-data" in shown.err

    @pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b"])
    def test_a_shard_that_is_none_is_refused(self, shard: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["reproduce", "tiny", "--shard", shard])
        assert "write 2/8 for the second of eight" in capsys.readouterr().err


def test_sheets_show_runs_that_learned_ranges(results: tuple[Path, list[Any]]) -> None:
    from lila.reproduce.engine.output import conclude

    experiment = Tiny()
    outcome = conclude(experiment, Scale.SMALL, 1, Store(results[0]))
    (sheet,) = sheets(outcome)
    assert sheet.title == "lila"
    assert sheet.truth is not None
    assert sheet.images is not None
    assert sheet.images.shape == (3, 1, 16, 16)
