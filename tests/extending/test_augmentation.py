"""A family of augmentations from outside the package: one class and one line that registers it."""

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

import lila
from commands import QUICK, Lila
from lila.augment.registry import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"


class Brightness(lila.Augmentation):
    """Images made brighter or darker: x' = x + r eps, with a learned range r."""

    noise_dim = 1
    unit = "grey levels"

    def __init__(self, init: float = 0.0) -> None:
        super().__init__()
        self.eta = nn.Parameter(torch.tensor(float(init)))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        change = self.eta * noise[..., 0]  # (b, s)
        return x.unsqueeze(1) + change.reshape(*change.shape, *(1 for _ in x.shape[1:]))

    @property
    def ranges(self) -> Mapping[str, float]:
        return {"brightness": abs(self.eta.item())}

    def arguments(self) -> dict[str, Any]:
        return {}  # those of the constructor, but for the learned value

    def exporters(self) -> Mapping[str, Any]:
        return {"torch": self.torch_code}

    def torch_code(self, inputs: lila.InputFormat) -> str:
        range_ = self.ranges["brightness"]
        return f"import torch\n\n\ndef transform(x):\n    return x + {range_:.4g} * (2 * torch.rand(()) - 1)\n"


@pytest.fixture
def brightness() -> Iterator[str]:
    with mock.patch.dict(FAMILIES):  # which takes the family out again
        lila.register_augmentation("brightness", Brightness)
        yield "brightness"


def images(n: int = 60) -> tuple[Tensor, Tensor]:
    """Images of one of two patterns, each with a random brightness that has nothing to do with its class."""
    y = torch.arange(n) % 2
    patterns = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])[y].reshape(n, 1, 2, 2)
    return patterns + 2 * (2 * torch.rand(n, 1, 1, 1) - 1), y


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def test_the_documentation_shows_this_family() -> None:
    shown = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    assert inspect.getsource(Brightness) in shown
    assert 'lila.register_augmentation("brightness", Brightness)' in shown


@pytest.mark.usefixtures("brightness")
def test_it_is_learned_saved_and_loaded(tmp_path: Path) -> None:
    run = lila.fit(network(), images(), Brightness(init=0.1), epochs=30, samples=8, eta_lr=0.1, progress="silent")
    assert run.ranges["brightness"] > 0.5
    assert re.search(r"brightness +±\S+ grey levels", run.summary())
    run.save(tmp_path / "run")
    loaded = lila.load(tmp_path / "run")  # without passing the augmentation
    assert isinstance(loaded.model.augmentation, Brightness)
    assert loaded.ranges == run.ranges
    x = images()[0]
    torch.testing.assert_close(loaded.model.eval()(x), run.model.eval()(x))


def test_a_run_of_a_family_that_is_not_registered_says_so(tmp_path: Path, brightness: str) -> None:
    run = lila.fit(network(), images(), Brightness(init=0.1), epochs=1, samples=2, progress="silent")
    run.save(tmp_path / "run")
    del FAMILIES[brightness]
    with pytest.raises(lila.CheckpointError, match="family 'brightness', which is not registered here"):
        lila.load(tmp_path / "run")
    assert lila.load(tmp_path / "run", augmentation=Brightness()).ranges == run.ranges


def test_the_command_line_trains_with_it_and_all_commands_open_the_run(
    lila: Lila, brightness: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    chosen = ["--augment", brightness, "--init", "0.2", "--transform", "partially-rotated", "--subset", "40"]
    trained = lila("train", "digits", "--model", "mlp", *chosen, "--out", run, *QUICK)
    assert trained.returncode == 0, trained.stderr
    assert "grey levels" in trained.stdout
    assert json.loads((run / "run.json").read_text())["architecture"]["augmentation"]["family"] == brightness
    assert "grey levels" in lila("show", run, "--picture", tmp_path / "ranges.png").stdout
    assert lila("resume", run).returncode == 0
    assert lila("report", run, "--out", tmp_path / "report.html").returncode == 0
    report = (tmp_path / "report.html").read_text()
    assert "grey levels" in report
    assert "--augment brightness --init 0.2" in report
    assert "Arrows that show" not in report  # there is no flow of a change of brightness
    code = lila("export", run, "--to", "torch")
    assert "def transform(x):" in code.stdout
    refused = lila("export", run)
    assert refused.returncode == 2
    assert "cannot be exported to 'torchvision'; choose one of 'torch'" in refused.stderr
    assert list(json.loads(lila("export", run, "--json").stdout)["ranges"]) == ["brightness"]


def test_what_a_family_does_not_take_is_refused(lila: Lila, brightness: str, tmp_path: Path) -> None:
    arguments = ["train", "digits", "--subset", "20", "--out", tmp_path / "run", "--model", "mlp", *QUICK]
    done = lila(*arguments, "--augment", brightness, "--padding", "border")
    assert done.returncode == 2
    assert "has no argument 'padding'. It takes: init." in done.stderr
    assert lila(*arguments, "--augment", "darkness").returncode == 2
    points = lila(*arguments, "--augment", "rotation-of-points")
    assert points.returncode == 3
    assert "which move points" in points.stderr
    assert not (tmp_path / "run").exists()


def test_a_class_that_is_not_registered_is_given_by_its_path(
    lila: Lila, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "from torch import Tensor, nn\nimport torch, lila\nfrom typing import Any\n"
    module += "from collections.abc import Mapping\n\n\n" + inspect.getsource(Brightness)
    (tmp_path / "my_families.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["--augment", "my_families:Brightness", "--subset", "20", "--model", "mlp", "--out", tmp_path / "run"]
    done = lila("train", "digits", *arguments, *QUICK)
    assert done.returncode == 0, done.stderr
    del sys.modules["my_families"]
    refused = lila("show", tmp_path / "run")  # it may come from a stranger
    assert refused.returncode == 4
    assert "name it again: --augment my_families:Brightness" in refused.stderr
    assert "my_families" not in sys.modules
    assert "grey levels" in lila("show", tmp_path / "run", "--augment", "my_families:Brightness").stdout
    wrong = lila("train", "digits", "--augment", "my_families:Darkness", "--subset", "20", "--out", tmp_path / "other")
    assert wrong.returncode == 2
    assert "'my_families:Darkness' could not be imported" in wrong.stderr
