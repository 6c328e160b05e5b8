"""`lila doctor`: what it finds, what it checks, and that it says what is wrong."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from commands import Lila
from lila._util.cgroups import limit_of_cgroup, processors_of_cgroup
from lila._util.extras import EXTRAS, Package, packages
from lila.laplace import self_check
from lila.laplace.evidence import Evidence


@pytest.fixture(scope="module")
def agreements() -> list[self_check.Agreement]:
    """The check, made once for all tests."""
    return self_check.check_evidence()


@pytest.fixture(autouse=True)
def _check_made_before(agreements: list[self_check.Agreement], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "check_evidence", lambda device: agreements)


def test_evidence_and_gradient_agree(agreements: list[self_check.Agreement]) -> None:
    assert len(agreements) == 3
    assert all(agreement.holds for agreement in agreements)
    assert 0 < agreements[0].difference < 1e-7  # in float64
    assert 1e-9 < agreements[1].difference < 1e-5  # in float32


def test_a_wrong_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Evidence.gradient

    def wrong(self: Evidence, *arguments: Any) -> dict[str, torch.Tensor]:
        return {name: 1.001 * gradient for name, gradient in right(self, *arguments).items()}

    monkeypatch.undo()
    monkeypatch.setattr(Evidence, "gradient", wrong)
    monkeypatch.setattr(self_check, "_IMAGES", 4)
    found = self_check.check_evidence()
    assert not found[0].holds
    assert found[0].difference == pytest.approx(1e-3, rel=0.01)
    assert not self_check.Agreement("this", float("nan"), 1.0).holds


def test_the_doctor_tells_what_is_here(lila: Lila, tmp_path: Path) -> None:
    done = lila("doctor", "--device", "cpu", "--data-dir", tmp_path)
    assert done.returncode == 0, done.stdout
    for words in (
        f"torch {torch.__version__}",
        "device    cpu",
        "processors",
        "free of",
        "not here: lila data get mnist",
        "plots        pictures and reports; ",
        "central differences",
        "Everything is in order.",
    ):
        assert words in done.stdout


def test_what_is_wrong_is_told_in_sentences(
    lila: Lila, tmp_path: Path, agreements: list[self_check.Agreement], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "notes.txt").write_text("no images")
    old = [
        Package("numpy", "1.26", "1.25.3", None),
        Package("rich", "13", None, None),
        Package("a", "2", None, "plots"),
    ]
    wrong = self_check.Agreement("gradient, beside differences", 0.5, 1e-5)
    monkeypatch.setattr("lila._util.extras.packages", lambda: old)
    monkeypatch.setattr(self_check, "check_evidence", lambda device: [*agreements, wrong])
    with mock.patch("lila.cli.machine.available_bytes", return_value=2**20):
        done = lila("doctor", "--data-dir", tmp_path, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert not found["well"]
    problems = dict(zip(("numpy", "rich", "memory", "data", "check"), found["problems"], strict=True))
    assert problems["numpy"].startswith("numpy 1.25.3 is too old; lila needs 1.26 or newer")
    assert problems["rich"].startswith("rich, which lila needs, is not installed")
    assert "Only 1 MiB of memory are free" in problems["memory"]
    assert "lila data get mnist" in problems["data"]
    assert "cannot be trusted" in problems["check"]
    assert [entry["holds"] for entry in found["check"]] == [True, True, True, False]
    assert found["machine"]["versions"]["torch"] == torch.__version__


def test_a_check_that_fails_is_a_finding(lila: Lila, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: str) -> None:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(self_check, "check_evidence", fail)
    done = lila("doctor", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "could not be made: RuntimeError: no kernel image" in done.stdout


def test_packages_are_those_of_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.0", "nothing-of-this-name>=2.1; extra == 'plots'", "pytest>=8; extra == 'dev'", "torch"]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    numpy, missing = packages()
    assert (numpy.name, numpy.extra, numpy.too_old) == ("numpy", None, False)
    assert (missing.version, missing.extra, missing.least) == (None, "plots", "2.1")
    assert Package("torch", "2.6", "2.13.0+cpu", None).too_old is False
    assert Package("torch", "2.6", "2.5.1", None).too_old


def test_the_extras_are_those_of_the_project() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for extra in EXTRAS:
        assert f"\n{extra} = [" in text


def test_limits_of_a_container_are_found(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/box"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
    assert limit_of_cgroup(tmp_path) is None
    assert processors_of_cgroup(tmp_path) is None
    (group / "memory.max").write_text("4096\n")
    (group.parent / "memory.max").write_text("max\n")
    (group / "cpu.max").write_text("150000 100000\n")
    (group.parent / "cpu.max").write_text("max 100000\n")
    assert limit_of_cgroup(tmp_path) == 4096
    assert processors_of_cgroup(tmp_path) == 1.5
