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
    for word in ("epoch", "loss", "accuracy", "evidence", "fit", "complexity", "left"):
        assert word in lines[0]
    assert lines[1].startswith("      1/4")
    for word in ("%", "rotation ±", "°", " s "):
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


def test_rows_name_their_columns_now_and_then_and_show_the_largest_ranges() -> None:
    ranges = {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.4}
    readable = {name: f"±{value}" for name, value in ranges.items()}
    text = io.StringIO()
    with displayed_progress(ProgressName.LINES, WholeRun(30, 100), Console(file=text)) as display:
        for epoch in range(1, 31):
            display.epoch(lila.EpochRecord(epoch=epoch, loss=0.5, ranges=ranges, readable_ranges=readable))
    lines = text.getvalue().splitlines()
    assert [number for number, line in enumerate(lines) if "evidence" in line] == [0, 21]
    assert lines[-1].endswith("d ±0.4, b ±0.3, c ±0.2")
    assert max(map(len, lines)) < 120


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
