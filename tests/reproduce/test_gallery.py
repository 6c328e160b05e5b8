"""The gallery: its command trains, draws and writes a page, and does nothing twice."""

import json
from math import pi
from pathlib import Path

import pytest
import torch

import lila
from lila.reproduce.gallery import CASES, Folders, write_page
from lila.reproduce.gallery.__main__ import learn, main

DOCS = Path(__file__).parent.parent.parent / "docs"
OWN_DATA = {"photographs", "mnist1d", "demand"}  # these need data or packages that need not be here


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


def test_a_missing_package_is_told() -> None:
    from lila.reproduce.gallery.data import package

    with pytest.raises(lila.DataError, match="needs no-such-package: pip install no-such-package"):
        package("no_such_package", "no-such-package")
