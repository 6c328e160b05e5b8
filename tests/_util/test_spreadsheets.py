import csv
from pathlib import Path

import pytest

from commands import QUICK, Lila
from lila._util.spreadsheets import safe_cell
from lila.results.tables import as_csv


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "=HYPERLINK('x')"])
def test_a_formula_becomes_text(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["cat", "", "a=b", "-1.5", "+3", "-1e-5", -1.5, None, "1-2", " =1"])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert safe_cell(value) == value


def test_tables_hold_no_formulas() -> None:
    assert as_csv([{"=name": "@home", "x": -0.5}, {"x": "-0.25"}]) == "'=name,x\n'@home,-0.5\n,-0.25\n"


def test_predictions_hold_no_formulas(
    lila: Lila, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, path in enumerate(sorted(photos.iterdir())):
        Path("data").mkdir(exist_ok=True)
        Path("data", ("=1+1", "@b", "c")[number]).symlink_to(path)
    Path("-x.png").symlink_to(photos / "red" / "0.png")
    assert lila("train", "data", "--model", "mlp", "--out", "run", *QUICK).returncode == 0
    done = lila("predict", "run", "--", "-x.png")
    assert done.returncode == 0, done.stderr
    header, row = csv.reader(done.stdout.splitlines())
    assert header == ["file", "class", "probability", "'=1+1", "'@b", "c"]
    assert row[0] == "'-x.png"
    assert row[1] in header[3:]
