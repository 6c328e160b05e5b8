"""A folder of real photographs goes from `lila train` to `lila predict` and `lila export`."""

import csv
import io
import json
import tarfile
from pathlib import Path

import pytest

from commands import Lila
from lila.benchmarks import few_images
from lila.data.sources import KNOWN, data_folder, find

CLASSES = ("airplane", "frog", "ship")
EACH = 200


def folder_of_photographs(target: Path) -> Path:
    """600 images of CIFAR-10 in three classes, from an archive of image folders in the data directory."""
    archive = data_folder() / "cifar10" / "cifar10-images.tar.gz"
    if find(KNOWN["cifar10"]) is None or not archive.exists():
        pytest.skip("there is no cifar10/cifar10-images.tar.gz in the data directory (LILA_DATA)")
    with tarfile.open(archive) as packed:
        for member in packed:
            part, name, file = (*member.name.split("/"), "", "")[:3]
            if part == "train" and name in CLASSES and file and int(Path(file).stem) < EACH:
                content = packed.extractfile(member)
                assert content is not None
                (target / name).mkdir(parents=True, exist_ok=True)
                (target / name / file).write_bytes(content.read())
    return target


@pytest.mark.slow
def test_a_folder_of_600_photographs_in_three_classes(lila: Lila, tmp_path: Path) -> None:
    photos, run = folder_of_photographs(tmp_path / "photos"), tmp_path / "run"
    done = lila("train", photos, "--out", run, "--epochs", 30, "--samples", 11, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["test"]["accuracy"] > 0.6  # a third by chance
    table = lila("predict", run, photos)
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert len(rows) == len(CLASSES) * EACH
    right = sum(Path(row["file"]).parent.name == row["class"] for row in rows)
    assert right / len(rows) > 0.6
    code = lila("export", run, "--to", "kornia").stdout
    assert "RandomAffine" in code


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_few_photographs_in_classes_of_unequal_size_do_not_collapse_or_the_run_says_so(seed: int) -> None:
    if find(KNOWN["cifar10"]) is None:
        pytest.skip("there is no cifar10 in the data directory (LILA_DATA)")
    found = few_images.run(320, seed, {"epochs": 40, "samples": 6})
    assert not found["never predicted"] or "never predicted" in found["verdict"]
    if not found["verdict"]:
        assert found["evidence per image"] > found["constant answer"]["evidence per image"]
        assert found["test"]["log_likelihood"] > found["constant answer"]["test"]["log_likelihood"]
    assert found["test"]["accuracy"] > 0.6  # of the constant answer: 0.4
