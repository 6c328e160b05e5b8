"""A data format from outside the package: a CSV file with a label and the pixels of an image in each row."""

import csv
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lila
from commands import QUICK, Lila
from lila.data.formats import format as registry


class PixelTable(lila.Format):
    """Grey square images, one in each row: the name of the class, then the pixels as numbers from 0 to 255."""

    name = "pixel-table"
    title = "a .csv file with a label and the pixels of an image in each row"

    def recognises(self, path: Path) -> bool:
        return path.is_file() and path.suffix == ".csv"

    def read(self, path: Path, reading: lila.Reading) -> lila.ImageData:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        names = [row[0] for row in rows if row]
        try:
            pixels = np.array([row[1:] for row in rows if row], dtype=np.int64)
        except ValueError as error:
            raise lila.DataError(f"{path} must hold a label and as many numbers in each row: {error}.") from error
        if pixels.min(initial=0) < 0 or pixels.max(initial=0) > 255:
            raise lila.DataError(f"{path} must hold numbers from 0 to 255 after each label.")
        side = int(pixels.shape[-1] ** 0.5)
        if pixels.ndim != 2 or not side or side * side != pixels.shape[1]:
            raise lila.DataError(f"{path} must hold square images, but a row has {pixels.shape[-1]} pixels.")
        classes = sorted(set(names))
        labels = torch.tensor([classes.index(name) for name in names])
        images = torch.from_numpy(pixels).to(torch.uint8).reshape(-1, 1, side, side)
        return reading.split(lila.ImageSet(images, labels), classes)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))  # other tests know the usual formats only
    lila.register_format(PixelTable())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path, random = tmp_path / "spots.csv", np.random.default_rng(0)
    with path.open("w", newline="") as file:
        for i in range(20):
            pixels = random.integers(0, 60, (8, 8))
            pixels[2:6, 2:6] += 150 * (i % 2)
            csv.writer(file).writerow([("dark", "light")[i % 2], *pixels.flatten()])
    return path


def test_the_documentation_shows_this_format() -> None:
    shown = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    assert inspect.getsource(PixelTable) in shown


def test_data_in_the_format_is_loaded(table: Path) -> None:
    task = lila.load_data(lila.Recipe(str(table), test_share=0.25))
    assert task.classes == ("dark", "light")
    assert task.shape == (1, 8, 8)
    assert task.examples == (16, 4)
    assert isinstance(task.train, tuple)
    x, y = task.train
    assert torch.equal(y, (x.mean((1, 2, 3)) > 0.2).long())


def test_the_command_line_trains_on_the_format_and_predicts(lila: Lila, table: Path, tmp_path: Path) -> None:
    done = lila("train", table, "--model", "mlp", "--out", tmp_path / "run", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == str(tmp_path / "run")


def test_the_format_is_listed(lila: Lila, tmp_path: Path) -> None:
    assert PixelTable.title in lila("data", "list").stdout
    (tmp_path / "data.xyz").write_text("nothing known")
    done = lila("train", tmp_path / "data.xyz")
    assert done.returncode == 3
    assert PixelTable.title in done.stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,1,2\nb,3,4\n", "square images, but a row has 2 pixels"),
        ("a\nb\n", "square images, but a row has 0 pixels"),
        ("a,1,2,3,4\nb,5,6,7,900\n", "numbers from 0 to 255"),
        ("a,0,0,0,0\na,0,0,0,0\n", "a single class"),
    ],
)
def test_wrong_content_is_refused_by_the_format_or_by_the_check_of_all_data(
    tmp_path: Path, rows: str, message: str
) -> None:
    (tmp_path / "wrong.csv").write_text(rows)
    with pytest.raises(lila.DataError, match=message):
        lila.load_data(lila.Recipe(str(tmp_path / "wrong.csv")))


def test_a_name_belongs_to_one_format() -> None:
    with pytest.raises(lila.ArgumentError, match="already a data format named 'pixel-table'"):
        lila.register_format(PixelTable())


@pytest.mark.parametrize(
    ("format_", "message"),
    [
        (PixelTable, "must be an instance of lila.Format.* forget the parentheses"),
        (None, "must be an instance of lila.Format, but is None"),
        (type("Nameless", (PixelTable,), {"name": None})(), "name of a data format consists of letters.*None does not"),
    ],
)
def test_what_is_no_format_is_refused(format_: Any, message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.register_format(format_)


def test_what_a_format_reads_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spots.csv").write_text("a,1,2,3,4\nb,5,6,7,8\n")
    monkeypatch.setattr(PixelTable, "read", lambda *_: None)
    with pytest.raises(lila.ArgumentError, match=r"'pixel-table' reads from .* must be an instance of lila.ImageData"):
        lila.load_data(lila.Recipe(str(tmp_path / "spots.csv")))
