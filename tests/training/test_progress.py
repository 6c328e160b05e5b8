import io
from typing import Any
from unittest import mock

import pytest
from rich.console import Console
from test_fit import QUICK, assert_same, data, network, run

import lila
from lila.laplace.terms import Terms
from lila.training.history import Seconds
from lila.training.progress import ProgressName, WholeRun, displayed_progress


def test_lines_tell_each_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    lila.fit(network(), data(), lila.Affine2d(["rotation"]), **QUICK)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + QUICK["epochs"]
    assert lines[0].split() == ["epoch", "loss", "accuracy", "evidence", "left", "rotation"]
    assert lines[1].startswith("     1/4")
    for word in ("%", "±", "°", " s "):
        assert word in lines[-1]
    assert {line.index(" s ") for line in lines[1:]} == {lines[0].index("left") + 2}  # in columns


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    lila.fit(network(), data(), lila.Affine2d(), progress="silent", **QUICK)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(lila.ArgumentError, match="no progress named 'loud'"):
        lila.fit(network(), data(), lila.Affine2d(), progress="loud", **QUICK)


def test_a_terminal_gets_a_table() -> None:
    record = lila.EpochRecord(
        epoch=3,
        loss=0.5,
        evidence=Terms(log_likelihood=-4.0, weight_penalty=-8.0, occam_factor=2.0),
        readable_ranges={"rotation": "±87.4°"},
        seconds=Seconds(weights=1.0, hyper=2.0),
    )
    text = io.StringIO()
    terminal = Console(file=text, force_terminal=True, width=100)
    with displayed_progress(ProgressName.AUTO, WholeRun(30, 100, lambda: 81.0), terminal) as display:
        display.epoch(record)
        assert "━" not in text.getvalue()
        with mock.patch("lila.training.progress._REFRESH", 0.0):
            display.within(0.5)
    shown = text.getvalue()
    for word in ("3/30", "±87.4°", "-0.100 nats per example = -0.040 fit - 0.060 complexity", "1 min 21 s", "━"):
        assert word in shown


def rows(ranges: dict[str, list[float]], readable: str, epochs: int) -> list[str]:
    """The rows of epochs in which each range takes these values one after the other, and then keeps the last."""
    text = io.StringIO()
    with displayed_progress(ProgressName.LINES, WholeRun(epochs, 100), Console(file=text)) as display:
        for epoch in range(1, epochs + 1):
            now = {name: values[min(epoch, len(values)) - 1] for name, values in ranges.items()}
            texts = {name: readable.format(value) for name, value in now.items()}
            display.epoch(lila.EpochRecord(epoch=epoch, loss=0.5, ranges=now, readable_ranges=texts))
    return text.getvalue().splitlines()


def test_rows_have_a_column_for_each_range() -> None:
    names = lila.Affine2d().ranges
    lines = rows({name: [0.1] for name in names}, "±{}", 50)
    assert lines[0].split() == ["x-", "y-", "x-", "y-"]
    assert lines[1].split()[-6:] == ["translation", "translation", "rotation", "scale", "scale", "shear"]
    assert [number for number, line in enumerate(lines) if "evidence" in line] == [1, 43]
    assert {len(line) for line in lines if "-  " not in line[-60:]} == {len(lines[1])}
    assert len(lines[1]) <= 120
    for name in ("rotation", "shear"):  # numbers end where the name of their column ends
        end = lines[1].index(name) + len(name)
        assert {line[end - 4 : end] for line in lines[2:42]} == {"±0.1"}


def test_of_many_ranges_the_largest_have_columns_that_stay_until_the_next_header() -> None:
    ranges = {f"range{i}": [0.0] for i in range(9)} | {"late": [0.0, 1.0]}
    lines = rows(ranges, "±{}", 50)
    assert "range0" in lines[0]
    assert "late" not in lines[0]
    assert "late" in lines[41]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("×0.50 to ×2.00", "×2.00"),
        ("×0.50 to ×3.00", "×0.50 to ×3.00"),
        ("×10^-7 to ×10^7", "×10^-7 to ×10^7"),
        ("±1.00 px", "±1.00 px"),
    ],
)
def test_a_symmetric_range_of_factors_is_told_by_its_upper_end(text: str, cell: str) -> None:
    assert rows({"scale": [0.7]}, text, 1)[1].endswith(f"  {cell}")


def test_a_run_is_announced_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    lila.fit(network(), data(), lila.Affine2d(["rotation"]), test=data(6), **QUICK)
    told = capsys.readouterr().err
    for words in (
        "20 inputs for training and 6 for test; 1 x 6 x 6; 3 classes (0: ",
        "Network: Sequential, 323 weights; averaged over 3 views (2 in steps of the weights).",
        "Expected: ",
        "iB of memory.",
    ):
        assert words in told


@pytest.mark.parametrize("changes", [{}, {"passes": "exact"}, {"method": "augerino"}, {"optimiser": "sgd"}])
def test_the_measured_steps_change_nothing(changes: dict[str, Any]) -> None:
    silent = run(progress="silent", **changes)
    assert_same(run(progress="lines", **changes), silent)
