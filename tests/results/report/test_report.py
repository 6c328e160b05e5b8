"""Reports: everything is in one file, nothing comes from outside, and it says what was learned and how sure it is."""

import html
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import lila
from commands import run_lila
from damage import change, without
from lila.cli import main
from lila.reproduce.engine.sheets import experiment_section, sheets
from lila.results.report import Sheet, sheet_of_folder, write_report
from lila.results.report.commands import command
from lila.results.report.compared import compared_parts
from lila.results.report.parts import range_parts
from lila.results.report.words import how_sure, key_figures
from lila.training.baselines import Baselines, PlainNetworkWorth
from lila.training.description import read_description, read_task
from lila.training.range_table import range_table
from lila.training.verdict import NO_DOUBT, Verdict
from reports import experiment_outcome, made_up_sheet


def turned(sheet: Sheet, degrees: float) -> Sheet:
    """The same run, had it learned a rotation."""
    augmentation = lila.Affine2d(init=[0, 0, degrees * torch.pi / 180, 0, 0, 0])
    return replace(sheet, augmentation=augmentation, verdict=NO_DOUBT)


def test_the_sentence_says_what_was_learned(digit_runs: list[Path]) -> None:
    by_evidence, by_loss, plain = map(sheet_of_folder, digit_runs)
    learned = "By the evidence, what leaves the label unchanged is rotation by ±87.0° and nothing else."
    assert turned(by_evidence, 87).sentence() == learned
    assert turned(by_evidence, 0).sentence() == "By the evidence, what leaves the label unchanged is nothing."
    assert (
        turned(by_loss, 87).sentence().startswith("The training loss ended with rotation by ±87.0° and nothing else;")
    )
    several = replace(
        by_evidence, verdict=NO_DOUBT, augmentation=lila.Affine2d(init=[0.03, 0.0, 0.5, 0.001, 0.0, 0.03])
    )
    for word in ("x-translation by", "rotation by", "shear by", "and nothing else"):
        assert word in several.sentence()
    assert "scale" not in several.sentence()
    assert "it has no ranges" in replace(plain, verdict=NO_DOUBT).sentence()


def test_it_holds_what_a_reader_needs(report: Path, digit_runs: list[Path]) -> None:
    text = html.unescape(report.read_text())
    sheet = sheet_of_folder(digit_runs[0])
    for part in (*sheet.readable.values(), "±90.0°", f"{sheet.evidence['value']:,.1f}", f"{torch.__version__}"):
        assert part in text, part
    assert sheet.scores is not None
    assert f"{sheet.scores['accuracy']:.4g}" in text
    assert text.count('role="img"') == 3 + 3 + 4 + 2 + 2  # evidence, calibration; flow, trajectories, tiles of two
    for name in ("torchvision", "onnx"):
        assert f"lila export {digit_runs[0]} --to {name}" in text
    assert f"lila predict {digit_runs[0]} IMAGES" in text


def test_the_command_trains_the_same_run_again(digit_runs: list[Path], tmp_path: Path) -> None:
    sheet = sheet_of_folder(digit_runs[0])
    assert sheet.again is not None
    assert run_lila(*sheet.again.split()[1:], "--out", tmp_path / "again").returncode == 0
    again = sheet_of_folder(tmp_path / "again")
    assert again.again == sheet.again
    assert "--no-baseline" in sheet.again
    assert again.evidence == pytest.approx(sheet.evidence, rel=1e-5)
    assert again.settings == sheet.settings


def test_the_command_names_everything_that_a_preset_would_choose(digit_runs: list[Path]) -> None:
    task, run = read_task(digit_runs[0], read_description(digit_runs[0])), lila.load(digit_runs[0])
    all_images = replace(
        task, recipe=replace(task.recipe, subset=None, size=(8, 9)), data_dir="/my data", examples=(5000, 1)
    )
    told = command(all_images, replace(run.settings, memory="4 GiB", passes="probed", gradient_examples=30))
    for part in ("--subset 5000", "--gradient-examples 30", "--size 8x9", "--data-dir '/my data'", "--memory '4 GiB'"):
        assert part in told
    assert "None" not in told
    assert "--no-baseline" not in told
    assert command(task, run.settings, baseline=False).endswith(" --no-baseline")
    assert "--no-baseline" not in command(task, replace(run.settings, method="non-invariant"), baseline=False)


def test_nothing_comes_from_outside(report: Path) -> None:
    text = report.read_text()
    sources = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'>\s)]+)', text)
    assert sources
    for source in sources:
        assert source.startswith(("data:", "#")), source
    assert "@import" not in text


def test_what_a_user_named_is_text_and_not_markup(digit_runs: list[Path], tmp_path: Path) -> None:
    settings = {"method": "lila", "data": "<b>lila</b>"}
    hostile = "</script><script>alert(1)</script>"
    sheet = replace(sheet_of_folder(digit_runs[0]), title=hostile, settings=settings, labels=[hostile] * 24)
    write_report([sheet, sheet], tmp_path / "r.html", title="<i>")
    text = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    assert "<b>lila" not in text
    assert "<title>&lt;i&gt;</title>" in text


def test_a_run_whose_data_has_gone_is_shown_without_images(
    digit_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Any:
        raise lila.DataError("it is not there")

    monkeypatch.setattr("lila.training.description.read_source", gone)
    write_report([sheet_of_folder(digit_runs[0])], tmp_path / "r.html")
    assert "Move through" not in (tmp_path / "r.html").read_text()


def test_a_run_of_an_older_version_that_keeps_no_calibration_is_shown(digit_runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(digit_runs[0], tmp_path / "run")
    change(tmp_path / "run" / "result.json", without("calibration"))
    assert sheet_of_folder(digit_runs[0]).calibration
    sheet = sheet_of_folder(tmp_path / "run")
    assert sheet.calibration is None
    write_report([sheet], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert ">Confusions<" in text
    assert ">Calibration<" not in text


def test_it_says_how_sure_a_range_is() -> None:
    plain = PlainNetworkWorth(evidence=-80.0, train={}, test={}, standard_error=1.0, test_gain=0.3, test_gain_error=0.1)
    sheet = replace(
        made_up_sheet(lila.Affine2d(["rotation", "shear"], init=[1.0, 0.5])),
        baselines=Baselines(non_invariant=plain),
        range_errors={"rotation": 0.1, "shear": None},
        examples=100,
        scores={"accuracy": 0.75, "log_likelihood": -0.5},
    )
    told = " ".join(how_sure(sheet))
    for part in ("rotation ±5.7°", "no maximum in shear", "30.0 nats larger", "better than without", "+0.300 ± 0.100"):
        assert part in told, part
    figures = {figure.name: figure.value for figure in key_figures(sheet)}
    assert figures["evidence per example"] == "-0.500"
    assert figures["gain by invariance"] == "+30.0"
    assert figures["test accuracy"] == "75.0%"
    by_loss = replace(
        sheet, settings={"method": "augerino"}
    )  # whose prior is not learned, so its evidence says nothing
    assert "nats" not in " ".join(how_sure(by_loss))
    unclear = replace(sheet, baselines=Baselines(non_invariant=replace(plain, test_gain=0.1)))
    assert "neither clearly better nor worse" in " ".join(how_sure(unclear))
    assert how_sure(replace(sheet, verdict=Verdict(doubts=("It is not.",)))) == []


def test_the_picture_of_a_range_has_its_error_and_that_of_the_data() -> None:
    sheet = replace(
        made_up_sheet(lila.Affine2d(["rotation"], init=torch.pi / 2)),
        range_errors={"rotation": torch.pi / 4},
        truth={"rotation": 0.75 * torch.pi},
    )
    (row,) = range_table(sheet.augmentation, sheet.shape, sheet.history, sheet.range_errors).rows
    drawn = range_parts(sheet, row)
    assert [drawn[name] for name in ("low", "share", "mark", "high")] == pytest.approx([0.25, 0.5, 0.75, 0.75])
    assert drawn["truth"] == "±135.0°"


def test_the_largest_evidence_is_told_of_runs_on_the_same_data() -> None:
    one = replace(made_up_sheet(lila.Affine2d()), settings={"method": "lila", "data": "digits", "epochs": 1})
    two = replace(one, evidence={"value": -40.0}, settings=dict(one.settings) | {"epochs": 2})
    rows = {name: best for name, _, best in compared_parts([one, two])["rows"]}
    assert rows["evidence, nats"] == 1
    assert compared_parts([one, two])["settings"] == [("epochs", ["1", "2"])]
    other = replace(two, settings=dict(two.settings) | {"data": "mnist"})
    assert {name: best for name, _, best in compared_parts([one, other])["rows"]}["evidence, nats"] is None


def test_a_run_made_in_python_is_shown(tmp_path: Path) -> None:
    x = torch.randn(20, 2)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    run = lila.fit(net, (x, (x[:, 0] > 0).long()), lila.Rotation2d(), epochs=3, burn_in=1, progress="silent")
    run.save(tmp_path / "run")
    write_report([sheet_of_folder(tmp_path / "run")], tmp_path / "r.html")
    assert "rotation" in (tmp_path / "r.html").read_text()


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.html")]) == 7
    assert f"There is no run in {tmp_path}" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_the_report_of_an_experiment(tmp_path: Path) -> None:
    outcome = experiment_outcome("augerino-strength")
    shown = sheets(outcome)
    assert [sheet.title for sheet in shown] == ["lila", "Augerino, 0.01", "Augerino, 0.1", "Augerino, 1.0"]
    write_report(shown, tmp_path / "r.html", "augerino-strength", experiment_section(outcome))
    text = (tmp_path / "r.html").read_text()
    assert html.escape(outcome.experiment.claim, quote=True).replace("&#x27;", "&#39;") in text
    assert outcome.command in text


def test_the_report_of_a_large_experiment_shows_some_runs_and_says_so(tmp_path: Path) -> None:
    outcome = experiment_outcome("accuracy")
    shown = sheets(outcome)
    assert len(shown) == 12
    assert all("lila" in sheet.title for sheet in shown)
    write_report(shown[:2], tmp_path / "r.html", "accuracy", experiment_section(outcome))
    assert f"2 of its {len(outcome.contents)} runs, all with seed 0." in (tmp_path / "r.html").read_text()
