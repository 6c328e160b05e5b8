"""The Python of docs/own-loop.md runs as it stands; trackers that are not installed are played by fakes."""

import posixpath
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import lila
import pages

PAGE = "own-loop.md"
TITLES = re.findall(r"^## (.+)$", pages.read(PAGE), flags=re.MULTILINE)


class FakeTracker(ModuleType):
    """Takes what wandb and MLflow take, and is as strict as they are about names and steps."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.steps: list[int] = []
        self.seen: dict[str, float] = {}

    def init(self, **options: Any) -> None:
        assert options

    def log(self, values: dict[str, float], *, step: int) -> None:
        assert step > (self.steps or [0])[-1]
        assert all(type(value) in (int, float) for value in values.values())
        self.steps.append(step)
        self.seen |= values

    def log_metrics(self, metrics: dict[str, float], *, step: int) -> None:
        for name in metrics:
            assert re.fullmatch(r"[/\w.\- :]+", name), name
            assert posixpath.normpath(name) == name, name
        self.log(metrics, step=step)


@pytest.fixture
def trackers(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeTracker]:
    made = {name: FakeTracker(name) for name in ("wandb", "mlflow")}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_pages_python_runs(
    trackers: dict[str, FakeTracker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TITLES[0] == "A plain PyTorch loop"  # which tests/training/test_own_loop.py runs
    names: dict[str, Any] = {}
    for title in TITLES[1:]:
        assert pages.blocks(PAGE, title=title), title
        pages.run(PAGE, *pages.blocks(PAGE, title=title), names=names)
    assert all(fake.steps == [1, 2] for fake in trackers.values())
    assert "ranges/rotation" in trackers["wandb"].seen
    assert len(names["learning"].ranges) == 6
    assert names["learning"].hyper.taken == 20
    assert set(names["classifier"].ranges_) == set(lila.Affine2d().ranges)


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "diagonal"])
def test_the_names_of_scalars_suit_trackers_whatever_the_prior(prior: str, trackers: dict[str, FakeTracker]) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    data = torch.rand(8, 1, 4, 4), torch.arange(8) % 2
    mlflow = trackers["mlflow"]
    changes: dict[str, Any] = {"structure": "diag"} if prior == "diagonal" else {}
    lila.fit(
        net,
        data,
        lila.Affine2d(),
        epochs=2,
        samples=2,
        prior=prior,
        progress="silent",
        callbacks=[lambda record: mlflow.log_metrics(lila.scalars(record), step=record.epoch)],
        **changes,
    )
    assert any(name.startswith("precisions") for name in mlflow.seen)
