"""The benchmarks as a whole: all are listed, every script starts, and the comparison with a search adds up."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lila.benchmarks
from commands import Lila
from lila.benchmarks.catalogue import BENCHMARKS, Benchmark
from lila.benchmarks.workloads import WORKLOADS, Workload

SHARED = {"__init__", "catalogue", "measuring", "script", "warps", "workloads"}
IMPORTED = {"optuna": "optuna", "timm": "timm", "laplace-torch": "laplace.curvature"}
"""What a benchmark imports; `laplace` alone would find tests/laplace."""
SCRIPTS = [benchmark for benchmark in BENCHMARKS if benchmark.is_script]


def test_every_module_is_listed_and_shared_modules_are_few() -> None:
    modules = {path.stem for path in Path(str(lila.benchmarks.__file__)).parent.glob("*.py")}
    assert modules - SHARED == {benchmark.name for benchmark in BENCHMARKS}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_the_docstring_of_the_package_lists_each(benchmark: Benchmark) -> None:
    assert lila.benchmarks.__doc__ is not None
    entry = f"- `{benchmark.name}`: {benchmark.measures}.\n  Command: `{benchmark.command}`\n"
    assert entry in lila.benchmarks.__doc__


def test_bench_lists_all_and_measures_nothing(lila: Lila) -> None:
    done = lila("bench", "--list")
    assert done.returncode == 0
    for benchmark in BENCHMARKS:
        assert f"{benchmark.name}: {benchmark.measures}.\n    {benchmark.command}\n" in done.stdout
    rows = json.loads(lila("bench", "--list", "--json").stdout)
    assert [row["name"] for row in rows] == [benchmark.name for benchmark in BENCHMARKS]
    assert {row["needs"] for row in rows} == {None, *IMPORTED}


@pytest.mark.parametrize("benchmark", SCRIPTS, ids=lambda benchmark: benchmark.name)
def test_every_script_starts(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if benchmark.needs is not None:
        pytest.importorskip(IMPORTED[benchmark.needs])
    module = f"lila.benchmarks.{benchmark.name}"
    monkeypatch.setattr(sys, "argv", [benchmark.name, "--help"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--threads" in text
    assert f"python -m lila.benchmarks.{benchmark.name}" in text


def test_a_script_prints_json_with_its_settings_and_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lila.benchmarks.profile_passes import main

    monkeypatch.setitem(WORKLOADS, "mlp", Workload("mlp", (1, 8, 8), samples=2, batch=4, width=50))
    main(["--network", "mlp", "--examples", "4", "--threads", "1"])
    result = json.loads(capsys.readouterr().out)
    assert {"network": "mlp", "examples": 4, "threads": 1}.items() <= result["settings"].items()
    assert {"machine", "torch"} <= result["settings"].keys()
    for number in (1, 2):
        shares = [operation["share"] for operation in result[f"pass {number}"].values()]
        assert 0.5 < sum(shares) <= 1.001
        assert shares == sorted(shares, reverse=True)


def test_epochs_of_the_weights_are_timed_if_their_losses_agree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lila.benchmarks import weight_steps

    monkeypatch.setitem(WORKLOADS, "mlp", Workload("mlp", (1, 8, 8), samples=2, batch=4, width=50))
    quick = ["--examples", "8", "--batch-size", "4", "--repeats", "1", "--threads", "1"]
    weight_steps.main(quick)
    result = json.loads(capsys.readouterr().out)
    assert all(result[f"{name} / epoch by the defaults"] > 0 for name in ("mixed arithmetic", "Adam without fusion"))
    monkeypatch.setitem(weight_steps._OTHERS, "large steps", {"lr": 1.0})
    with pytest.raises(SystemExit, match="With large steps an epoch has another loss"):
        weight_steps.main(quick)


def test_denormal_numbers_are_timed_if_the_training_is_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lila.benchmarks import denormals

    monkeypatch.setattr(denormals, "_PARTS", 2)
    quick = ["--data", "digits", "--network", "small_lila:small_mlp", "--subset", "20", "--epochs", "2"]
    denormals.main([*quick, "--batch-size", "10"])
    result = json.loads(capsys.readouterr().out)
    assert len(result["epochs with denormal numbers / epochs without"]) == 2
    losses = iter([1.0, 2.0])
    monkeypatch.setattr(denormals, "_train", lambda *args, **kwargs: ([1.0, 1.0], next(losses)))
    with pytest.raises(SystemExit, match="it was not the same training"):
        denormals.main(quick)


class TestSearch:
    """The search by cross-validation, which needs Optuna."""

    @pytest.fixture
    def found(self, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, object]]:
        pytest.importorskip("optuna")
        from lila.benchmarks.cross_validation import main

        def run(*options: str) -> dict[str, object]:
            quick = "--subset=200 --epochs=4 --batch-size=20 --folds=2 --trials=2 --searches=1 --threads=1"
            main([*quick.split(), *options])
            result: dict[str, object] = json.loads(capsys.readouterr().out)
            return result

        return run

    @pytest.mark.parametrize("prior", ["fixed", pytest.param("learned", marks=pytest.mark.slow)])
    def test_both_searches_come_from_the_same_trials(self, found: Callable[..., dict[str, object]], prior: str) -> None:
        result: dict[str, dict[str, object]] = found("--search-prior", prior)  # type: ignore[assignment]
        searches: dict[str, list[dict[str, float]]] = result["searches"]  # type: ignore[assignment]
        goal = result["lila"]["cross-validated accuracy"]
        assert isinstance(goal, float)
        assert isinstance(result["lila"]["test accuracy of its range with prior precision 1"], float)
        for told, every in zip(searches["told when to stop"], searches["all trials"], strict=True):
            assert every["trials"] == 2
            assert told["trials"] <= 2
            assert told["as good as lila"] == every["as good as lila"] == (every["cross-validated accuracy"] >= goal)
            assert every["cross-validated accuracy"] >= told["cross-validated accuracy"]
            if told["trials"] == 2:
                assert told == every
        ratios = result["time of a search / lila's"]
        assert ratios.keys() == {"told when to stop", "all trials"}

    def test_a_search_that_is_told_stops_at_the_first_that_is_good_enough(self) -> None:
        pytest.importorskip("optuna")
        from lila.benchmarks.cross_validation import Trial, until_reached

        trials = [Trial(rotation, score, 1.0) for rotation, score in ((0.1, 0.5), (1.0, 0.8), (1.5, 0.9))]
        assert list(until_reached(trials, 0.8)) == trials[:2]
        assert list(until_reached(trials, 0.4)) == trials[:1]
        assert list(until_reached(trials, 0.95)) == trials
