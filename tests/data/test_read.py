import gzip
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from written import idx_bytes, picture, write_cifar_folder, write_class_folders, write_idx_folder

from lila.data.formats import Reading
from lila.data.formats.cifar import ARCHIVE, FOLDER
from lila.data.images import ImageData
from lila.data.read import read
from lila.data.sources import KNOWN
from lila.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache and the data directory of a user who has neither."""
    folder = tmp_path / "home" / "cache"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: folder / name)
    monkeypatch.setenv("LILA_DATA", str(tmp_path / "home" / "data"))
    return folder


def packed(folder: Path, archive: Path, inside: str = "") -> Path:
    """Pack the content of a folder, under a folder of that name if there is one."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: str(Path(inside) / path.relative_to(folder)) for path in files}
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for path, name in names.items():
                zipped.write(path, name)
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for path, name in names.items():
                tar.add(path, name)
    return archive


def shapes(data: ImageData) -> tuple[tuple[int, ...], int, int]:
    return data.train.shape, len(data.train), len(data.test)


def images(data: ImageData) -> Tensor:
    return torch.cat([part.images(torch.arange(len(part))) for part in (data.train, data.test)])


@pytest.mark.parametrize("zipped", [True, False])
def test_a_folder_of_idx_files_is_recognised(tmp_path: Path, zipped: bool) -> None:
    arrays = write_idx_folder(tmp_path / "some", zipped=zipped)
    data = read(str(tmp_path / "some"))
    assert shapes(data) == ((1, 5, 5), 6, 3)
    assert data.classes == ("0", "1", "2")
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert torch.equal(images(data)[:6, 0], torch.from_numpy(arrays["train-images-idx3-ubyte"]).float() / 255)
    assert torch.equal(images(data)[6:, 0], torch.from_numpy(arrays["t10k-images-idx3-ubyte"]).float() / 255)


@pytest.mark.parametrize("layout", ["files", "folder", "archive", "the archive itself"])
def test_cifar_is_recognised_however_it_lies(tmp_path: Path, layout: str, cache: Path) -> None:
    place = tmp_path / "photos"
    write_cifar_folder(place if layout == "files" else place / FOLDER)
    source = place
    if "archive" in layout:
        archive = packed(place / FOLDER, tmp_path / ARCHIVE, FOLDER)
        for file in (place / FOLDER).iterdir():
            file.unlink()
        (place / FOLDER).rmdir()
        archive.rename(place / ARCHIVE)
        source = place / ARCHIVE if layout == "the archive itself" else place
    data = read(str(source))
    assert shapes(data) == ((3, 32, 32), 10, 2)
    assert data.classes[3] == "cat"
    assert not cache.exists()


@pytest.mark.parametrize("as_npz", [True, False])
def test_arrays_are_recognised_and_split_as_asked(tmp_path: Path, as_npz: bool) -> None:
    arrays: dict[str, NDArray[Any]] = {"x": np.arange(20, dtype=np.uint8).reshape(20, 1, 1), "y": np.arange(20) % 2}
    source = tmp_path / "data.npz"
    if as_npz:
        np.savez(source, x=arrays["x"], y=arrays["y"])
    else:
        source = tmp_path / "arrays"
        source.mkdir()
        for name, array in arrays.items():
            np.save(source / f"{name}.npy", array)
    half = read(str(source), reading=Reading(test_share=0.5, seed=1))
    assert shapes(half) == ((1, 1, 1), 10, 10)
    other = read(str(source), reading=Reading(test_share=0.5, seed=2))
    assert not torch.equal(images(half), images(other))
    assert shapes(read(str(source))) == ((1, 1, 1), 16, 4)


def test_a_folder_of_images_is_recognised_resized_and_split_as_asked(tmp_path: Path) -> None:
    write_class_folders(tmp_path / "photos", count=10)
    data = read(str(tmp_path / "photos"), reading=Reading(size=(3, 7), test_share=0.5, seed=4))
    assert shapes(data) == ((1, 3, 7), 10, 10)
    again = read(str(tmp_path / "photos"), reading=Reading(size=(3, 7), test_share=0.5, seed=5))
    assert not torch.equal(images(data), images(again))


@pytest.mark.parametrize("kind", ["photos.zip", "photos.tar.gz", "photos.tgz"])
@pytest.mark.parametrize("inside", ["", "photos"])
@pytest.mark.parametrize("parted", [True, False])
def test_an_archive_of_an_image_folder_is_the_folder(tmp_path: Path, kind: str, inside: str, parted: bool) -> None:
    folder = tmp_path / "photos"
    for part in ("train", "test") if parted else ("",):
        write_class_folders(folder / part)
    data = read(str(packed(folder, tmp_path / kind, inside)))
    expected = read(str(folder))
    assert data.classes == ("cat", "dog")
    assert torch.equal(images(data), images(expected))
    assert torch.equal(data.train.labels, expected.train.labels)


def test_archives_of_idx_files_and_arrays_are_read_too(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "some")
    assert shapes(read(str(packed(tmp_path / "some", tmp_path / "idx.zip", "some")))) == ((1, 5, 5), 6, 3)
    (tmp_path / "arrays").mkdir()
    np.savez(tmp_path / "arrays" / "data.npz", x=picture(0, 10, 4, 4), y=np.arange(10) % 2)
    assert shapes(read(str(packed(tmp_path / "arrays", tmp_path / "arrays.zip")))) == ((1, 4, 4), 8, 2)


def test_an_archive_is_unpacked_once(tmp_path: Path, cache: Path) -> None:
    archive = packed(write_and_return(tmp_path / "photos"), tmp_path / "photos.zip")
    first = read(str(archive))
    (unpacked,) = (cache / "lila" / "unpacked").iterdir()
    kept = unpacked / "cat" / "00.png"
    os.utime(kept, (1, 1))
    archive.rename(tmp_path / "moved.zip")  # it is the same by its content, not by its name
    second = read(str(tmp_path / "moved.zip"))
    assert list((cache / "lila" / "unpacked").iterdir()) == [unpacked]
    assert kept.stat().st_mtime == 1
    assert torch.equal(images(first), images(second))


def test_another_archive_of_the_same_name_is_unpacked_anew(tmp_path: Path, cache: Path) -> None:
    photos = write_and_return(tmp_path / "photos")
    first = read(str(packed(photos, tmp_path / "photos.zip")))
    write_class_folders(photos, ("eel",))
    second = read(str(packed(photos, tmp_path / "photos.zip")))
    assert first.classes == ("cat", "dog")
    assert second.classes == ("cat", "dog", "eel")
    assert len(list((cache / "lila" / "unpacked").iterdir())) == 2


def write_and_return(folder: Path) -> Path:
    write_class_folders(folder)
    return folder


def test_a_damaged_archive_leaves_nothing_in_the_cache(tmp_path: Path, cache: Path) -> None:
    archive = packed(write_and_return(tmp_path / "photos"), tmp_path / "photos.tgz")
    archive.write_bytes(archive.read_bytes()[:300])
    with pytest.raises(DataError, match=r"photos\.tgz cannot be unpacked"):
        read(str(archive))
    assert not [path for path in cache.rglob("*") if path.is_file() or path.parent.name == "unpacked"]


def test_a_folder_that_holds_an_archive_only_is_the_archive(tmp_path: Path) -> None:
    (tmp_path / "got").mkdir()
    packed(write_and_return(tmp_path / "photos"), tmp_path / "got" / "photos.zip")
    assert read(str(tmp_path / "got")).classes == ("cat", "dog")


@pytest.mark.parametrize("as_archive", [False, True])
def test_pickled_cifar_is_refused_with_the_binary_archive_named(tmp_path: Path, as_archive: bool) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (folder / name).write_bytes(b"\x80\x04.")
    source = packed(folder, tmp_path / "cifar-10-python.tar.gz", folder.name) if as_archive else folder
    with pytest.raises(DataError, match=f"pickles.*{ARCHIVE}"):
        read(str(source))
    with pytest.raises(DataError, match=f"pickles.*{ARCHIVE}"):
        read(str(tmp_path))


def test_a_known_set_is_read_from_the_data_directory(tmp_path: Path) -> None:
    for place in (tmp_path / "home" / "data", tmp_path / "elsewhere"):
        write_idx_folder(place / "mnist", train=6 if "home" in str(place) else 9)
    assert len(read("mnist").train) == 6
    assert len(read("mnist", tmp_path / "elsewhere").train) == 9


def test_cifar_is_read_from_the_data_directory_as_it_was_fetched(tmp_path: Path) -> None:
    write_cifar_folder(tmp_path / "unpacked")
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    packed(tmp_path / "unpacked", tmp_path / "data" / "cifar10" / ARCHIVE, FOLDER)
    assert shapes(read("cifar10", tmp_path / "data")) == ((3, 32, 32), 10, 2)


def test_clothes_have_names(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "fashion-mnist", train=10, test=10, classes=10)
    assert read("fashion-mnist", tmp_path).classes[9] == "ankle boot"


@pytest.mark.parametrize("classes", [3, 12])
def test_there_are_as_many_names_as_classes_whatever_the_folder_is_called(tmp_path: Path, classes: int) -> None:
    write_idx_folder(tmp_path / "old-fashioned", train=12, classes=classes)
    assert len(read(str(tmp_path / "old-fashioned")).classes) == classes


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_set_that_is_not_here_says_how_to_get_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lila.data.read.find", lambda known, data_dir: None)  # even if the system has it
    with pytest.raises(DataError, match=f"`lila data get {name}`.*LILA_DATA") as caught:
        read(name)
    assert str(tmp_path / "home" / "data") in str(caught.value)
    with pytest.raises(DataError, match=f"{name} is not in {tmp_path / 'other'}"):
        read(name, tmp_path / "other")


def test_an_unknown_name_is_told_with_those_known() -> None:
    with pytest.raises(DataError, match=r"no data set 'mmist'.*digits, mnist, fashion-mnist, cifar10"):
        read("mmist")


@pytest.mark.parametrize("name", ["notes.txt", "array.npy"])
def test_a_file_of_another_kind_is_told_with_the_forms_there_are(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("hello")
    with pytest.raises(DataError, match="a folder of images per class, IDX files") as caught:
        read(str(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)


def test_the_digits_come_with_scikit_learn() -> None:
    data = read("digits")
    assert shapes(data) == ((1, 16, 16), 1000, 797)
    pixels = images(data)
    assert pixels.min() == 0
    assert pixels.max() == 1
    assert pixels[..., 0, :].abs().max() == 0
    assert torch.equal(images(read("digits")), pixels)
    assert not torch.equal(images(read("digits", reading=Reading(seed=1))), pixels)


@pytest.mark.parametrize("name", ["train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"])
def test_a_missing_idx_file_is_named(tmp_path: Path, name: str) -> None:
    write_idx_folder(tmp_path)
    (tmp_path / f"{name}.gz").unlink()
    with pytest.raises(DataError, match=rf"{name} \(or {name}\.gz\) is not among them"):
        read(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("train-images-idx3-ubyte", (5, 5, 5)),
        ("train-images-idx3-ubyte", (6, 25)),
        ("train-labels-idx1-ubyte", (7,)),
        ("t10k-labels-idx1-ubyte", (3, 1)),
    ],
)
def test_idx_files_that_do_not_belong_together_are_named(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    write_idx_folder(tmp_path)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(shape, dtype=np.uint8))))
    with pytest.raises(DataError, match="as many labels as images") as caught:
        read(str(tmp_path))
    assert str(tmp_path / f"{name}.gz") in str(caught.value)
    assert " x ".join(map(str, shape)) in str(caught.value)


def test_idx_images_of_different_sizes_for_training_and_test_are_refused(tmp_path: Path) -> None:
    write_idx_folder(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(idx_bytes(picture(0, 3, 4, 4)))
    with pytest.raises(DataError) as caught:
        read(str(tmp_path))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("dtype", ["i2", "i4", "f4"])
def test_idx_images_that_are_neither_bytes_nor_in_the_unit_interval_are_refused(tmp_path: Path, dtype: str) -> None:
    write_idx_folder(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(idx_bytes(np.full((6, 5, 5), 200, dtype=dtype)))
    with pytest.raises(DataError) as caught:
        read(str(tmp_path))
    assert str(tmp_path / "train-images-idx3-ubyte.gz") in str(caught.value)


@pytest.mark.parametrize("labels", [np.full(6, -1, dtype="i1"), np.full(6, 0.5, dtype="f4")])
def test_idx_labels_that_are_not_numbers_of_classes_are_refused(tmp_path: Path, labels: NDArray[Any]) -> None:
    write_idx_folder(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(idx_bytes(labels))
    with pytest.raises(DataError) as caught:
        read(str(tmp_path))
    assert str(tmp_path / "train-labels-idx1-ubyte.gz") in str(caught.value)


def test_what_a_mac_adds_to_a_zip_is_not_a_class(tmp_path: Path) -> None:
    archive = packed(write_and_return(tmp_path / "photos"), tmp_path / "photos.zip", "photos")
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.writestr("__MACOSX/photos/cat/._00.png", b"\0\5\x16\7")
    assert read(str(archive)).classes == ("cat", "dog")
