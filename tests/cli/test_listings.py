"""`lila data`, `lila models`, `lila augmentations` and `lila export`."""

import gzip
import json
from pathlib import Path

from commands import Lila


def test_models_are_listed_with_their_parameters(lila: Lila) -> None:
    text = lila("models").stdout
    assert "mlp" in text
    assert "795,010" in text
    rows = {row["name"]: row for row in json.loads(lila("models", "--shape", "3x16x16", "--json").stdout)}
    assert rows["resnet-8-8"]["parameters"] > 10_000
    assert rows["lenet"]["parameters"] is None
    assert "28 x 28" in rows["lenet"]["about"]
    failed = lila("models", "--shape", "large")
    assert failed.returncode == 2
    assert "'large' is not the shape" in failed.stderr


def test_augmentations_are_listed_with_their_ranges_and_units(lila: Lila) -> None:
    text = lila("augmentations").stdout
    assert "correlated-affine" in text
    assert "x-translation, y-translation, rotation, x-scale, y-scale, shear (radians, half sides, log-scale)" in text
    rows = {row["name"]: row for row in json.loads(lila("augmentations", "--shape", "2", "--json").stdout)}
    assert rows["rotation-of-points"]["ranges"] == ["rotation"]
    assert "affine" not in rows
    failed = lila("augmentations", "--shape", "large")
    assert failed.returncode == 2
    assert "'large' is not the shape" in failed.stderr


def test_data_sets_are_listed_with_where_they_are(lila: Lila, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    rows = {row["name"]: row for row in json.loads(lila("data", "list", "--json", "--data-dir", tmp_path).stdout)}
    assert set(rows) == {"digits", "mnist", "fashion-mnist", "cifar10"}
    assert rows["mnist"]["here"] == str(tmp_path / "mnist")
    assert rows["cifar10"]["here"] is None
    text = lila("data", "list", LILA_DATA=str(tmp_path)).stdout
    assert "lila data get cifar10" in text
    assert str(tmp_path / "mnist") in text


def test_getting_what_no_source_has_says_what_was_tried(lila: Lila, tmp_path: Path) -> None:
    unreachable = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    done = lila("data", "get", "cifar10", "--data-dir", tmp_path, **unreachable)
    assert done.returncode == 3
    assert f"the data directory {tmp_path / 'cifar10'}: cifar-10-binary.tar.gz is not there" in done.stderr
    assert "https://www.cs.toronto.edu/~kriz/: " in done.stderr
    assert f"Put these files into {tmp_path / 'cifar10'} by hand" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert "'imagenet' is none of mnist, fashion-mnist and cifar10" in lila("data", "get", "imagenet").stderr


def test_export_writes_code_and_json(lila: Lila, trained: Path, tmp_path: Path) -> None:
    code = lila("export", trained, "--to", "torchvision").stdout
    assert "RandomAffine(" in code
    task = json.loads((trained / "run.json").read_text())["task"]
    assert str(round(task["scaling"]["mean"][0], 4)) in code
    out = tmp_path / "augmentation.py"
    assert lila("export", trained, "--to", "torch", "--out", out).returncode == 0
    names: dict[str, object] = {}
    exec(out.read_text(), names)
    assert "transform" in names
    record = json.loads(lila("export", trained, "--json").stdout)
    assert record["ranges"] == json.loads(lila("show", trained, "--json").stdout)["ranges"]
