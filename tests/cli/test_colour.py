"""Changes of colour from the command line: the family learns how the pixels were scaled."""

import json
from pathlib import Path

import pytest

from commands import QUICK, Lila


def test_colours_are_trained_saved_exported_and_shown(lila: Lila, photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = lila("train", photos, "--model", "mlp", "--augment", "colour", "--out", run, *QUICK)
    assert trained.returncode == 0, trained.stderr
    assert "saturation" in trained.stdout
    description = json.loads((run / "run.json").read_text())
    scaling = description["task"]["scaling"]
    arguments = description["architecture"]["augmentation"]["arguments"]
    assert arguments["mean"] == scaling["mean"] != [0.0, 0.0, 0.0]
    assert arguments["std"] == scaling["std"]
    assert "hue" in lila("show", run).stdout
    assert lila("resume", run).returncode == 0
    assert "LearnedColour" in lila("export", run, "--to", "torch").stdout
    assert lila("report", run, "--with-images", "--out", tmp_path / "a.html").returncode == 0
    assert lila("predict", run, photos / "red").returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--augment", "colour"], "Grey images have no saturation or hue"),
        (["--augment", "series"], "changes series of shape (channels, time)"),
        (["--augment", "point-cloud"], "clouds of shape (points, 3)"),
    ],
)
def test_a_family_that_does_not_fit_grey_images_is_refused(
    lila: Lila, tmp_path: Path, options: list[str], message: str
) -> None:
    done = lila("train", "digits", "--subset", "20", "--out", tmp_path / "run", "--model", "mlp", *QUICK, *options)
    assert done.returncode == 3
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_grey_images_have_brightness_contrast_and_gamma(lila: Lila, tmp_path: Path) -> None:
    options = ["--augment", "colour", "--generators", "brightness,contrast,gamma", "--init", "0.1"]
    done = lila("train", "digits", "--subset", "20", "--out", tmp_path / "run", "--model", "mlp", *QUICK, *options)
    assert done.returncode == 0, done.stderr
    assert "gamma" in done.stdout
