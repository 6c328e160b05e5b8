"""The gallery: its command trains, draws and writes a page, and does nothing twice."""

import importlib.util
import json
import sys
from dataclasses import replace
from math import pi
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import lila
from lila.benchmarks.held_ranges import run_at
from lila.reproduce.gallery import CASES, Folders, write_page
from lila.reproduce.gallery.__main__ import learn, main
from lila.reproduce.gallery.data import package, package_folder, some_images

DOCS = Path(__file__).parent.parent.parent / "docs"
OWN_DATA = {  # these need data or packages that need not be here
    "photographs",
    "dimmed-photographs",
    "mnist1d",
    "demand",
    "gestures",
    "flips",
    "no-flips",
    "molecules",
}


def test_the_command_trains_draws_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["clouds", "inks", "--seeds", "1", "--epochs", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    assert capsys.readouterr().err.count("evidence") == 2
    page = (tmp_path / "gallery.md").read_text()
    assert "| z-rotation | ±180.0° | ±" in page
    for name in ("clouds", "inks"):
        assert f"images/gallery-{name}.png" in page
        assert (tmp_path / "images" / f"gallery-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert main(given) == 0
    assert "evidence" not in capsys.readouterr().err  # all runs were kept
    with pytest.raises(SystemExit):
        main(["nothing"])


@pytest.mark.parametrize("name", sorted(CASES.keys() - OWN_DATA))
def test_each_case_is_a_problem_that_fits_its_family(name: str) -> None:
    problem = CASES[name].make(1, Folders())
    x, y = problem.train
    problem.augmentation.check_shape(tuple(x.shape[1:]))
    assert problem.net(x[:2]).shape == (2, int(y.max()) + 1)
    assert problem.truth.keys() <= problem.augmentation.ranges.keys()
    assert not any(problem.augmentation.ranges.values())  # all are learned from zero
    again = CASES[name].make(1, Folders()).train[0]
    torch.testing.assert_close(again, x)


def test_the_page_in_the_documentation_is_what_the_kept_results_say(tmp_path: Path) -> None:
    kept = {file.stem: json.loads(file.read_text()) for file in (DOCS / "results" / "gallery").glob("*.json")}
    assert kept.keys() == CASES.keys()
    write_page(tmp_path, CASES, kept)
    assert (tmp_path / "gallery.md").read_text() == (DOCS / "gallery.md").read_text()
    for name, results in kept.items():
        assert [run["seed"] for run in results["runs"]] == [0, 1, 2]
        assert (DOCS / "images" / f"gallery-{name}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "range_", "true", "tolerance"),
    [("recoloured-digits", "hue", pi, 0.1), ("clouds", "z-rotation", pi, 0.1), ("faded-digits", "gamma", 1.386, 0.3)],
)
def test_a_known_range_is_recovered_and_nothing_else(name: str, range_: str, true: float, tolerance: float) -> None:
    torch.set_num_threads(1)
    ranges = learn(CASES[name].make(3, Folders()), 3)["ranges"]
    assert ranges.pop(range_) == pytest.approx(true, rel=tolerance)
    assert max(ranges.values()) < 0.05


@pytest.mark.slow
def test_hue_stays_at_zero_where_it_is_the_class() -> None:
    torch.set_num_threads(1)
    assert learn(CASES["inks"].make(3, Folders()), 3)["ranges"]["hue"] < 0.02


def test_ranges_are_held_while_weights_are_trained_or_learned_from_where_they_are() -> None:
    whole = CASES["inks"].make(0, Folders())
    problem = replace(whole, train=(whole.train[0][:40], whole.train[1][:40]))
    short: dict[str, Any] = {"seed": 0, "epochs": 2, "burn_in": 0, "samples": 4}
    held = run_at(problem, {"hue": 0.5}, **short)
    assert held["ranges"] == pytest.approx({"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0.5, "gamma": 0})
    assert sum(held["terms"].values()) == pytest.approx(held["evidence"])
    assert held["gradient"]["hue"] != 0
    assert run_at(problem, {"hue": 0.5}, held=False, **short)["ranges"]["hue"] != 0.5
    with pytest.raises(lila.ArgumentError, match="sequence of families"):
        run_at(replace(problem, augmentation=lila.Compose(lila.Colour(), lila.HorizontalFlip())), {}, **short)


def test_a_missing_package_is_told() -> None:
    with pytest.raises(lila.DataError, match="needs no-such-package: pip install no-such-package"):
        package("no_such_package", "no-such-package")
    with pytest.raises(lila.DataError, match="inside of no_such_package: pip install --no-deps no_such_package"):
        package_folder("no_such_package")


def test_files_inside_of_a_package_are_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "aeon" / "datasets" / "data" / "ItalyPowerDemand"
    folder.mkdir(parents=True)
    (tmp_path / "aeon" / "__init__.py").write_text("raise RuntimeError('it is not to be imported')")
    days = "\n".join(",".join(str(day + hour % 5) for hour in range(24)) + f":{1 + day % 2}" for day in range(20))
    (folder / "ItalyPowerDemand_TEST.ts").write_text(f"@univariate true\n@classLabel true 1 2\n@data\n{days}\n")
    monkeypatch.syspath_prepend(tmp_path)
    problem = CASES["demand"].make(0, Folders())
    assert problem.train[0].shape == (12, 1, 24)
    assert problem.test[0].shape == (8, 1, 24)
    assert "aeon" not in sys.modules
    assert importlib.util.find_spec("aeon") is not None


@pytest.fixture
def garments(tmp_path: Path) -> str:
    """Images of 28 x 28 pixels, light on the right, of four classes."""
    images = np.broadcast_to(np.linspace(0, 200, 28), (80, 28, 28)).astype(np.uint8)
    np.savez(
        tmp_path / "garments.npz",
        train_images=images,
        train_labels=np.arange(80) % 4,
        test_images=images[:40],
        test_labels=np.arange(40) % 4,
    )
    return str(tmp_path / "garments.npz")


def test_half_of_the_garments_are_mirrored_or_none_is(garments: str) -> None:
    for name, low, high in (("flips", 0.2, 0.8), ("no-flips", 0.0, 0.0)):
        problem = CASES[name].make(0, Folders(garments=garments))
        x, y = problem.train
        assert x.shape == (80, 1, 14, 14)
        mirrored = (x[:, 0, 0, 0] > x[:, 0, 0, -1]).float().mean()
        assert low <= mirrored <= high
        assert problem.net(x[:2]).shape == (2, int(y.max()) + 1)
        assert list(problem.augmentation.ranges) == ["horizontal flip", "vertical flip"]


def test_only_the_chosen_classes_are_taken_and_numbered_anew(garments: str) -> None:
    (train, test), classes = some_images(garments, 30, 0, ("3", "1"))
    assert classes == ("3", "1")
    assert len(train[0]) == 30
    assert len(test[0]) == 20  # all there are
    assert set(train[1].tolist()) == {0, 1}
    assert some_images(garments, 30, 0, ("1", "unknown"))[1] == ("0", "1", "2", "3")


def test_molecules_lie_and_stand_and_are_turned_about_z(monkeypatch: pytest.MonkeyPatch) -> None:
    from lila.reproduce.gallery import points

    rods = {name: {"positions": [[0.1 * i % 0.3, i, 0.0] for i in range(10)]} for name in points.ISOMERS}
    monkeypatch.setitem(sys.modules, "ase", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ase.data", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ase.data.g2", SimpleNamespace(data=rods))
    problem = CASES["molecules"].make(0, Folders())
    x, y = problem.train
    assert x.shape == (400, 10, 3)
    height = x[..., 2].amax(1) - x[..., 2].amin(1)
    assert height[y % 2 == 0].max() < 1.5  # lying: no more than the displacements
    assert height[y % 2 == 1].min() > 8  # standing: nine units long
    assert not torch.allclose(x, problem.test[0])
    problem.augmentation.check_shape((10, 3))
    assert problem.augmentation.ranges.keys() >= problem.truth.keys() == {"z-rotation", "jitter"}
