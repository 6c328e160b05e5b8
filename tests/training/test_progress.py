import io

import pytest
from rich.console import Console
from test_fit import QUICK, data, network

import lila
from lila.laplace.evidence import Terms
from lila.training.history import Seconds
from lila.training.progress import ProgressName, displayed_progress


def test_lines_tell_each_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    lila.fit(network(), data(), lila.Affine2d(["rotation"]), **QUICK)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == QUICK["epochs"]
    assert lines[0].startswith("epoch 1/4  loss ")
    for word in ("accuracy", "evidence", "rotation ±", "°", "left 0 min 00 s"):
        assert word in lines[-1]


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    lila.fit(network(), data(), lila.Affine2d(), progress="silent", **QUICK)
    assert capsys.readouterr().out == ""
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
    with displayed_progress(ProgressName.AUTO, 30, Console(file=text, force_terminal=True, width=80)) as display:
        display(record)
    shown = text.getvalue()
    for word in ("3/30", "±87.4°", "-10.0 = -4.0 -8.0 +2.0", "1 min 21 s"):
        assert word in shown
