import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import lila as library
from commands import QUICK, Lila


def test_probabilities_as_csv_and_json_are_those_of_the_network(
    lila: Lila, trained: Path, photos: Path, tmp_path: Path
) -> None:
    table = tmp_path / "classes.csv"
    assert lila("predict", trained, photos, "--out", table).returncode == 0
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == 30
    assert rows[0].keys() == {"file", "class", "probability", "blue", "green", "red"}
    one = photos / "green" / "4.png"
    (record,) = json.loads(lila("predict", trained, one, "--json").stdout)
    (row,) = [row for row in rows if row["file"] == str(one)]
    scaling = json.loads((trained / "run.json").read_text())["task"]["scaling"]
    pixels = torch.tensor(np.array(Image.open(one)), dtype=torch.float32).permute(2, 0, 1) / 255
    mean, std = (torch.tensor(scaling[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        expected = library.load(trained).model.eval()((pixels - mean) / std[None]).softmax(1)[0]
    for name, probability in zip(("blue", "green", "red"), expected.tolist(), strict=True):
        assert record["probabilities"][name] == pytest.approx(probability, rel=1e-4)
        assert float(row[name]) == pytest.approx(probability, rel=1e-4)
    assert record["class"] == row["class"] == max(record["probabilities"], key=record["probabilities"].get)


def test_little_memory_gives_the_same_probabilities_from_fewer_views_at_a_time(
    lila: Lila, trained: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that somebody else made may need much memory for a single view."""
    counts: list[int] = []
    forward = library.InvariantModel.forward

    def counted(model: library.InvariantModel, x: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        assert noise is not None
        counts.append(len(x) * noise.shape[1])
        return forward(model, x, noise)

    monkeypatch.setattr(library.InvariantModel, "forward", counted)
    expected = json.loads(lila("predict", trained, photos, "--json").stdout)
    assert max(counts) == 60  # two views of each of 30 images
    counts.clear()
    monkeypatch.setattr("lila.cli.predict.available_bytes", lambda device: 1)
    found = json.loads(lila("predict", trained, photos, "--json").stdout)
    assert (max(counts), len(counts)) == (1, 61)  # the first one is measured
    for one, other in zip(found, expected, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], rel=1e-4)


def test_images_of_another_size_are_refused_or_resized(lila: Lila, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (20, 10), 99).save(path)
    failed = lila("predict", trained, path, "--out", tmp_path / "out.csv")
    assert failed.returncode == 3
    assert f"{path} is 10 x 20" in failed.stderr
    assert not (tmp_path / "out.csv").exists()
    assert lila("predict", trained, path, "--resize").returncode == 0


def test_what_is_no_image_or_no_run_of_train_is_refused(lila: Lila, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not an image")
    assert "is not an image" in lila("predict", trained, tmp_path / "text.png").stderr
    assert "does not exist" in lila("predict", trained, tmp_path / "nothing.png").stderr
    (tmp_path / "empty").mkdir()
    assert "holds no image" in lila("predict", trained, tmp_path / "empty").stderr


def test_the_posterior_is_kept_on_request_and_used(lila: Lila, photos: Path, trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = lila("train", photos, "--model", "mlp", "--out", folder, "--save-posterior", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "The posterior takes" in done.stderr
    plain, averaged = (
        json.loads(lila("predict", folder, photos, "--json", *more).stdout) for more in ((), ("--posterior",))
    )
    assert [sum(row["probabilities"].values()) for row in averaged] == pytest.approx([1.0] * 30, abs=1e-5)
    confidence = [sum(max(row["probabilities"].values()) for row in rows) for rows in (plain, averaged)]
    assert confidence[1] < confidence[0]
    without = lila("predict", trained, photos, "--posterior")
    assert without.returncode == 2
    assert "--save-posterior" in without.stderr
