"""Time series: read from arrays and .ts files, scaled, trained on by the command line, and drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lila as library
from commands import Lila
from lila.data.read import read
from lila.results.plots.series import HEIGHT, WIDTH, draw_series

HEADER = """# two kinds of beats
@problemName beats
@timeStamps false
@univariate true
@classLabel true slow fast
@data
"""


def beats(count: int, length: int = 20, channels: int | None = None) -> np.ndarray[Any, Any]:
    """Waves of two frequencies in turn, in volts far from 0."""
    time = np.linspace(0, 6, length)
    waves = np.stack([np.sin((1 + i % 2) * time + 0.1 * i) for i in range(count)]) * 5 + 40
    return waves if channels is None else np.stack([waves * (1 + c) for c in range(channels)], axis=1)


def write_ts(path: Path, series: np.ndarray[Any, Any], header: str = HEADER) -> Path:
    """Write series (n, c, t), whose classes alternate."""
    lines = [
        ":".join(",".join(f"{value:.6f}" for value in channel) for channel in channels) + f":{('slow', 'fast')[i % 2]}"
        for i, channels in enumerate(series)
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def labels(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count) % 2


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_arrays_named_series_are_time_series_of_any_values(tmp_path: Path, channels: int | None) -> None:
    x, test = beats(10, channels=channels), beats(4, channels=channels)
    path = tmp_path / "series.npz"
    np.savez(path, train_series=x, train_labels=labels(10), test_series=test, test_labels=labels(4))
    data = read(str(path))
    assert data.train.shape == data.test.shape == (channels or 1, 20)
    torch.testing.assert_close(data.train.pixels, torch.tensor(x.reshape(10, -1, 20), dtype=torch.float32))
    np.savez(path, series=x, labels=labels(10))
    halves = read(str(path))
    assert len(halves.train) + len(halves.test) == 10


def test_each_channel_of_series_is_standardised_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "series.npz"
    np.savez(path, series=beats(10, channels=2), labels=labels(10))
    task = library.load_data(library.Recipe(str(path), test_share=0))
    assert isinstance(task.train, tuple)
    torch.testing.assert_close(task.train[0].mean((0, 2)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(task.train[0].std((0, 2), correction=0), torch.ones(2))
    torch.testing.assert_close(task.scaling.undo(task.train[0]), torch.tensor(beats(10, channels=2)).float())
    unscaled = library.load_data(library.Recipe(str(path), test_share=0, scaling="unit")).train
    assert isinstance(unscaled, tuple)
    assert unscaled[0].mean() > 30


@pytest.mark.parametrize("channels", [1, 3])
def test_a_ts_file_is_read_alone_as_a_pair_or_by_its_folder(tmp_path: Path, channels: int) -> None:
    x = beats(8, channels=channels)
    whole = write_ts(tmp_path / "beats.ts", x)
    data = read(str(whole))
    assert data.classes == ("slow", "fast")
    assert (len(data.train), len(data.test)) == (6, 2)
    train, test = write_ts(tmp_path / "beats_TRAIN.ts", x), write_ts(tmp_path / "beats_TEST.ts", x[:4])
    for source in (train, tmp_path):
        pair = read(str(source))
        assert (len(pair.train), len(pair.test)) == (8, 4)
        torch.testing.assert_close(pair.train.pixels, torch.tensor(x, dtype=torch.float32))
        assert pair.train.labels.tolist() == [0, 1] * 4
    test.unlink()
    assert len(read(str(train)).train) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "has no line @data"),
        ("@classLabel true a b\n@data\n", "holds no series after the line @data"),
        ("@data\n1,2:a\n", "must name different classes"),
        ("@classLabel true a a\n@data\n1,2:a\n", "must name different classes"),
        ("@classLabel true a b\n@data\n1,2:a\n1,2:c\n", "a series of class 'c', but its header names a, b"),
        ("@classLabel true a b\n@data\n1,2:a\n1,2,3:b\n", "2 kinds, 2 to 3 values long. Pad, cut"),
        ("@classLabel true a b\n@data\n1,2:1,2,3:a\n", "1 kinds, 2 to 3 values"),
        ("@classLabel true a b\n@data\n1,?:a\n", r"line 3, cannot be read: .*Fill in missing values"),
        ("@classLabel true a b\n@data\n1;2:a\n", "Numbers have commas"),
        ("@classLabel true a b\n@data\nb\n", "must hold series of one length"),
        ("@timestamps true\n@classLabel true a b\n@data\n(1,2):a\n", "time stamps"),
        ("@classLabel true a b\n@data\n1,inf:a\n1,2:b\n1,2:a\n1,2:b\n", "must be finite"),
    ],
)
def test_what_is_no_ts_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.ts").write_text(text)
    with pytest.raises(library.DataError, match=message):
        read(str(tmp_path / "x.ts"))


def test_bytes_that_are_no_text_and_folders_of_several_sets_are_refused(tmp_path: Path) -> None:
    (tmp_path / "film.ts").write_bytes(b"\x47\xff\xfe\x00" * 20)
    with pytest.raises(library.DataError, match=r"cannot be read as a \.ts file"):
        read(str(tmp_path / "film.ts"))
    for name in ("a_TRAIN.ts", "b_TRAIN.ts"):
        write_ts(tmp_path / name, beats(4, channels=1))
    with pytest.raises(library.DataError, match=r"2 training sets: a_TRAIN\.ts, b_TRAIN\.ts"):
        read(str(tmp_path))


def test_arrays_that_are_no_series_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "series.npz"
    np.savez(path, series=beats(6).astype(complex), labels=labels(6))
    with pytest.raises(library.DataError, match=r"series must be real numbers of shape \(n, t\)"):
        read(str(path))
    np.savez(path, series=np.full((6, 4), np.nan), labels=labels(6))
    with pytest.raises(library.DataError, match="must be finite"):
        read(str(path))
    np.savez(path, x=beats(6, channels=2), y=labels(6))
    with pytest.raises(library.DataError, match="Time series are given as arrays named series and labels"):
        read(str(path))
    np.savez(path, series=beats(6), labels=labels(6))
    with pytest.raises(library.ArgumentError, match=r"moves pixels of images, but .* holds time series"):
        library.load_data(library.Recipe(str(path), transform="scaled"))
    with pytest.raises(library.ArgumentError, match=r"Only images in folders are resized, but .* holds time series"):
        library.load_data(library.Recipe(str(path), size=(4, 4)))


def test_the_command_line_trains_on_series_and_shows_them(lila: Lila, tmp_path: Path) -> None:
    path, run = tmp_path / "series.npz", tmp_path / "run"
    np.savez(path, series=beats(40, channels=2), labels=labels(40))
    quick = ["--epochs", "2", "--burn-in", "0", "--samples", "2", "--batch-size", "10", "--no-baseline"]
    trained = lila("train", path, "--out", run, *quick)
    assert trained.returncode == 0, trained.stderr
    assert "32 series for training and 8 for test; 20 values in time, 2 channels" in trained.stderr
    assert "Network: cnn1d" in trained.stderr
    assert "dilation" in trained.stdout
    assert lila("show", run, "--picture", tmp_path / "a.png", "--with-images").returncode == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert lila("report", run, "--with-images", "--out", tmp_path / "a.html").returncode == 0
    report = (tmp_path / "a.html").read_text()
    assert "Each series, then random draws" in report
    assert '"kind": "series"' in report  # which sliders move
    assert "LearnedTimeSeries" in lila("export", run, "--to", "torch").stdout
    assert lila("resume", run).returncode == 0
    refused = lila("predict", run, path)
    assert refused.returncode == 3
    assert "classifies time series" in refused.stderr
    wrong = lila("train", path, "--augment", "affine", "--out", tmp_path / "other", *quick)
    assert wrong.returncode == 3
    assert "transforms images of shape" in wrong.stderr
    wrong = lila("train", path, "--model", "cnn", "--out", tmp_path / "other", *quick)
    assert wrong.returncode == 2
    assert "For time series take cnn1d or mlp" in wrong.stderr


def test_a_drawn_series_is_a_line_from_left_to_right() -> None:
    drawn = draw_series(torch.linspace(0, 1, 30).expand(2, 1, -1), 0.0, 1.0)
    assert drawn.shape == (2, 4, HEIGHT, WIDTH)
    opacity = drawn[0, 3]
    assert (opacity.max(0).values > 0.3).all()  # in every column
    rows = torch.arange(HEIGHT).float()
    height = (opacity * rows[:, None]).sum(0) / opacity.sum(0)
    assert (height.diff() < 0).all()  # it rises
    assert draw_series(torch.zeros(1, 2, 5), 0.0, 0.0).isfinite().all()
