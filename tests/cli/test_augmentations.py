"""`lila train --augment` with several families, and every other command on the run."""

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch

from commands import QUICK, Lila
from lila.cli.show import record
from lila.results.plots import figure, plot_flow
from lila.results.report import sheet_of_folder, write_report
from lila.training.tasks import open_run
from lila.training.verdict import NO_DOUBT


@pytest.fixture(scope="module")
def composed(lila: Lila, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("composed") / "run"
    arguments = ["--augment", "correlated-affine, horizontal-flip", "--generators", "x-scale,y-scale", "--init", "0.2"]
    done = lila("train", photos, "--model", "mlp", "--out", out, *arguments, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "horizontal flip" in done.stdout
    return out


def test_a_run_of_several_families_is_shown_drawn_reported_and_exported(
    lila: Lila, composed: Path, tmp_path: Path
) -> None:
    described = json.loads((composed / "run.json").read_text())
    assert described["task"]["augmentation"]["family"] == "correlated-affine,horizontal-flip"
    shown = json.loads(lila("show", composed, "--json").stdout)
    assert list(shown["ranges"]) == ["x-scale", "y-scale", "horizontal flip"]
    assert isinstance(shown["couplings"], list)
    picture, report = tmp_path / "run.png", tmp_path / "run.html"
    assert lila("show", composed, "--picture", picture, "--with-images").returncode == 0
    assert picture.stat().st_size > 1_000
    assert lila("report", composed, "--out", report, "--with-images").returncode == 0
    assert "--augment correlated-affine,horizontal-flip" in report.read_text()
    exported = json.loads(lila("export", composed, "--json").stdout)
    assert [part["family"] for part in exported["parts"]] == ["Affine2d", "HorizontalFlip"]


@pytest.mark.parametrize(
    ("augment", "code", "words"),
    [
        ("affine,colours", 2, "There is no family 'colours' of augmentations here"),
        ("affine,,horizontal-flip", 2, "There is no family ''"),
        ("rotation-of-points", 3, "Families that fit inputs of shape (3, 8, 8): affine, correlated-affine"),
        (",".join(["affine"] * 20), 2, "At most 16 families"),
    ],
)
def test_families_that_do_not_fit_are_refused(
    lila: Lila, photos: Path, tmp_path: Path, augment: str, code: int, words: str
) -> None:
    done = lila("train", photos, "--model", "mlp", "--augment", augment, "--out", tmp_path / "run", *QUICK)
    assert done.returncode == code
    assert words in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_option_that_no_family_takes_is_refused(lila: Lila, photos: Path, tmp_path: Path) -> None:
    done = lila(
        "train", photos, "--augment", "horizontal-flip,vertical-flip", "--padding", "zeros", "--out", tmp_path / "run"
    )
    assert done.returncode == 2
    assert "takes the argument 'padding'" in done.stderr


def test_couplings_are_told_and_principal_directions_drawn(composed: Path, tmp_path: Path) -> None:
    run, _ = open_run(composed)
    moving = run.model.augmentation.get_parameter("parts.0.eta")
    with torch.no_grad():
        moving.copy_(torch.tensor([[0.5, 0.0], [0.5, 0.1]]))
    assert "x-scale and y-scale move together, correlation 0.98" in run.summary()
    assert record(run)["couplings"][0]["first"] == "x-scale"
    with mock.patch.object(figure, "plot_flow", wraps=plot_flow) as drawn:
        figure.draw_run(run, tmp_path / "run.png")
    assert [tuple(call.kwargs["noise"].shape) for call in drawn.call_args_list] == [(3,), (3,)]
    sheet = replace(sheet_of_folder(composed), augmentation=run.model.augmentation, verdict=NO_DOUBT)
    assert "Coupled: x-scale and y-scale move together, correlation 0.98." in sheet.sentence()
    write_report([sheet], tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "Principal directions of the learned distribution: x-scale ×0.6" in text
