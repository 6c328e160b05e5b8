import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from commands import Lila
from lila.benchmarks.hyper_steps import checked_passes, measure
from lila.benchmarks.scaling import Point, memory, scaling, width
from lila.benchmarks.warps import warp_ratios
from lila.benchmarks.workloads import WORKLOADS, Workload, prepare
from lila.errors import NumericalError

SMALL = Workload("mlp", (1, 4, 4), samples=2, batch=4, width=5)


def test_bench_measures_and_compares_with_an_earlier_measurement(
    lila: Lila, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, "mlp", SMALL)
    before = tmp_path / "before.json"
    quick = ("bench", "--networks", "mlp", "--examples", 4, "--repeats", 1, "--passes", "exact")
    done = lila(*quick, "--out", before, "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(before.read_text())
    assert made == json.loads(done.stdout)
    assert {"exact: total", "epoch / plain loop"} <= set(made["results"]["mlp"])
    assert "probed: total" not in made["results"]["mlp"]
    made["results"]["mlp"]["exact: total"] = 1e-6
    before.write_text(json.dumps(made))
    done = lila(*quick, "--compare", before)
    assert done.returncode == 1
    (line,) = [t for t in done.stdout.splitlines() if "exact: total" in t]
    assert line.endswith("slower")
    made["results"]["mlp"] = {"exact: total": 1e6, "seconds of an epoch": 1e-9}
    made["threads"] = 77
    before.write_text(json.dumps(made))
    done = lila(*quick, "--compare", before, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["slower"] == []
    assert "was measured with threads = 77, not" in done.stderr


@pytest.mark.slow
def test_a_whole_run_is_measured_beside_a_plain_one(lila: Lila) -> None:
    done = lila("bench", "--networks", "none", "--runs", "mlp", "--examples", 1500, "--epochs", 8, "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["results"].values()
    parts = sum(value for name, value in found.items() if name.startswith("of it"))
    assert 1 < parts < found["run / plain run"]


def test_bench_refuses_what_it_does_not_know(lila: Lila, tmp_path: Path) -> None:
    assert "no benchmark of 'gpt'" in lila("bench", "--networks", "gpt").stderr
    assert "no whole run of 'gpt'" in lila("bench", "--runs", "gpt").stderr
    assert "measured by a whole run" in lila("bench", "--passes", "running").stderr
    assert "'lagged'" in lila("bench", "--networks", "mlp", "--passes", "probed,lagged").stderr
    (tmp_path / "other.json").write_text("[]")
    done = lila("bench", "--networks", "mlp", "--compare", tmp_path / "other.json")
    assert done.returncode == 3
    assert "other.json was not written by `lila bench --out`" in done.stderr


@pytest.mark.slow
def test_scaling_memory_and_width_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lila.benchmarks.scaling._MLP", SMALL)
    point = Point("S = 2", SMALL, 8)
    assert {"S = 2: exact", "S = 2: probed"} <= scaling(1, [point]).keys()
    peaks = memory((1032, 2064), Workload("mlp", (1, 8, 8), samples=2, batch=128, width=20))  # batches of 86, one probe
    assert abs(peaks["peak bytes, N = 2064"] - peaks["peak bytes, N = 1032"]) <= 8 * 1032  # the examples' indices
    assert all(value > 0 for value in width(20, 4).values())


def test_every_network_of_the_benchmark_can_be_measured() -> None:
    result = measure(Workload("resnet-8-8", (3, 8, 8), samples=2, batch=2), 4, 1, ["probed", "sampled"])
    assert {"probed: total", "sampled: total"} <= result.keys()
    assert all(value > 0 for value in result.values())


@pytest.mark.parametrize(
    ("wrong_one", "message"),
    [
        (1, "exact: the gradient is off"),
        (2, "exact: .*not timed"),
        (4, "probed: .*not timed"),
        (6, "sampled: .*not timed"),
    ],
)
def test_a_wrong_gradient_is_not_timed(monkeypatch: pytest.MonkeyPatch, wrong_one: int, message: str) -> None:
    import lila as library

    model, data = prepare(SMALL, 4)
    right, calls = library.Evidence.gradient, []

    def wrong(*args: object) -> dict[str, torch.Tensor]:
        calls.append(args)
        factor = 2 if len(calls) == wrong_one else 1
        return {name: factor * grad for name, grad in right(*args).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(library.Evidence, "gradient", wrong)
    with pytest.raises(NumericalError, match=message):
        checked_passes(SMALL, model, data)


@pytest.mark.parametrize("wrong", ["values", "gradient"])
def test_a_wrong_warp_is_not_timed(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    import lila as library

    model = library.InvariantModel(torch.nn.Flatten(), library.Affine2d(init=0.1), 2)
    x = torch.rand(3, 1, 4, 4)
    assert all(ratio > 0 for ratio in warp_ratios(model, x, 1).values())
    right = library.Affine2d.forward

    def other(*args: torch.Tensor) -> torch.Tensor:
        views = right(*args)  # type: ignore[arg-type]
        return 1.1 * views if wrong == "values" else 1.1 * views - 0.1 * views.detach()

    monkeypatch.setattr(library.Affine2d, "forward", other)
    with pytest.raises(NumericalError, match="differs from PyTorch's"):
        warp_ratios(model, x, 1)


def test_exact_passes_are_measured_beside_an_epoch_of_as_many_examples() -> None:
    workload = replace(SMALL, exact_examples=4)
    assert [workload.examples_for(kind, 100) for kind in ("exact", "probed")] == [4, 100]
    assert workload.examples_for("exact", 2) == 2
    assert measure(workload, 8, 1, ["exact", "probed"])["exact: total"] > 0
