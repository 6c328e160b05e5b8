from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from written import picture

from lila.data.formats import Reading
from lila.data.formats.arrays import read_arrays
from lila.data.images import ImageSet
from lila.errors import DataError

Arrays = dict[str, NDArray[Any]]


def parted(shape: tuple[int, ...] = (4, 5)) -> Arrays:
    return {
        "x_train": picture(0, 6, *shape),
        "y_train": np.arange(6) % 3,
        "x_test": picture(1, 3, *shape),
        "y_test": np.arange(3),
    }


def written(folder: Path, arrays: Mapping[str, Any], as_npz: bool = True, **options: Any) -> Path:
    if as_npz:
        np.savez(folder / "data.npz", **{**options, **arrays})
        return folder / "data.npz"
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, **options)
    return folder


def pixels(images: ImageSet) -> Tensor:
    assert isinstance(images.pixels, Tensor)
    return images.pixels


@pytest.mark.parametrize("as_npz", [True, False])
@pytest.mark.parametrize(
    "names",
    [("x_train", "y_train", "x_test", "y_test"), ("train_images", "train_labels", "test_images", "test_labels")],
)
def test_parted_arrays_are_read_as_they_are(tmp_path: Path, names: tuple[str, ...], as_npz: bool) -> None:
    arrays = parted()
    renamed = dict(zip(names, arrays.values(), strict=True)) | {"other": np.zeros(2)}
    data = read_arrays(written(tmp_path, renamed, as_npz), Reading())
    assert data.classes == ("0", "1", "2")
    assert data.train.shape == (1, 4, 5)
    assert np.array_equal(pixels(data.train)[:, 0].numpy(), arrays["x_train"])
    assert np.array_equal(pixels(data.test)[:, 0].numpy(), arrays["x_test"])
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.test.labels.tolist() == [0, 1, 2]
    assert data.train.labels.dtype == torch.int64


@pytest.mark.parametrize("as_npz", [True, False])
@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels")])
def test_whole_arrays_are_split_by_class_and_seed(tmp_path: Path, names: tuple[str, str], as_npz: bool) -> None:
    x = np.arange(40, dtype=np.uint8).reshape(40, 1, 1)
    path = written(tmp_path, {names[0]: x, names[1]: np.arange(40) % 4}, as_npz)
    data = read_arrays(path, Reading(test_share=0.3, seed=5))
    train, test = pixels(data.train).flatten().tolist(), pixels(data.test).flatten().tolist()
    assert sorted(train + test) == list(range(40))
    assert torch.bincount(data.test.labels).tolist() == [3, 3, 3, 3]
    assert data.test.labels.tolist() == [number % 4 for number in test]
    assert pixels(read_arrays(path, Reading(None, 0.3, 5)).test).flatten().tolist() == test
    assert pixels(read_arrays(path, Reading(None, 0.3, 6)).test).flatten().tolist() != test


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_last_and_channels_first_are_the_same(tmp_path: Path, channels: int) -> None:
    arrays = parted((4, 5, channels))
    last = read_arrays(written(tmp_path, arrays), Reading())
    moved = {name: array.transpose(0, 3, 1, 2) if "x" in name else array for name, array in arrays.items()}
    first = read_arrays(written(tmp_path, moved), Reading())
    assert first.train.shape == last.train.shape == (channels, 4, 5)
    assert torch.equal(pixels(first.train), pixels(last.train))
    assert np.array_equal(pixels(last.train)[2, :, 1, 3].numpy(), arrays["x_train"][2, 1, 3])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_real_numbers_in_the_unit_interval_stay(tmp_path: Path, dtype: str) -> None:
    x = (np.arange(24).reshape(6, 2, 2) / 23).astype(dtype)
    data = read_arrays(written(tmp_path, parted() | {"x_train": x, "x_test": x[:3]}), Reading())
    assert pixels(data.train).dtype == torch.float32
    assert np.array_equal(pixels(data.train)[:, 0].numpy(), x.astype(np.float32))
    assert pixels(data.train).max() == 1


@pytest.mark.parametrize("labels", [np.arange(6).astype(np.uint8) % 3, (np.arange(6) % 3)[:, None]])
def test_labels_may_be_bytes_or_a_column(tmp_path: Path, labels: NDArray[Any]) -> None:
    data = read_arrays(written(tmp_path, parted() | {"y_train": labels}), Reading())
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]


def refused(path: Path, message: str | None = None) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_arrays(path, Reading())
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("as_npz", [True, False])
@pytest.mark.parametrize("count", [5, 7, 0])
def test_another_number_of_labels_is_told(tmp_path: Path, count: int, as_npz: bool) -> None:
    path = written(tmp_path, parted() | {"y_train": np.arange(count) % 3}, as_npz)
    refused(path, f"x_train has 6 images but y_train has {count} labels")


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(6) / 2,
        np.arange(6) - 1,
        np.eye(6, 3, dtype=np.int64),
        np.array(list("abcabc")),
        np.array([True, False] * 3),
    ],
)
def test_labels_that_are_not_numbers_of_classes_are_told(tmp_path: Path, labels: NDArray[Any]) -> None:
    refused(written(tmp_path, parted() | {"y_train": labels}), "y_train must be classes 0, 1,")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.full((6, 4, 5), 1.01), "x_train must be uint8, or real numbers in .*float64 from 1.01 to 1.01"),
        (np.full((6, 4, 5), -0.01), "x_train must be uint8, or real numbers in .*from -0.01"),
        (np.full((6, 4, 5), np.inf), "x_train must be uint8, or real numbers in"),
        (np.full((6, 4, 5), np.nan), "x_train must be uint8, or real numbers in"),
        (np.zeros((6, 4, 5), dtype=np.int64), "x_train must be uint8, or real numbers in .*int64"),
        (np.zeros((6, 4, 5), dtype=bool), "x_train must be uint8, or real numbers in .*bool"),
        (np.zeros((6, 4, 5), dtype=complex), "x_train must be uint8, or real numbers in .*complex"),
        (np.full((6, 4, 5), "a"), "x_train must be uint8, or real numbers in"),
        (np.zeros((0, 4, 5), dtype=np.int64), "x_train"),
        (np.zeros((6, 20), dtype=np.uint8), r"x_train must be grey or colour images .* shape \(6, 20\)"),
        (np.zeros((6, 4, 5, 2), dtype=np.uint8), r"x_train must be grey or colour .* shape \(6, 4, 5, 2\)"),
        (np.zeros((6, 1, 4, 5, 1), dtype=np.uint8), "x_train must be grey or colour"),
    ],
)
def test_images_that_are_none_are_told(tmp_path: Path, images: NDArray[Any], message: str) -> None:
    refused(written(tmp_path, parted() | {"x_train": images}), message)


def test_training_and_test_images_of_different_shapes_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, parted() | {"x_test": picture(0, 3, 5, 4)})
    refused(path, r"training images are \(1, 4, 5\) but test images \(1, 5, 4\)")


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"y_train": np.array([0, 2, 2, 0, 3, 3]), "y_test": np.zeros(3, dtype=int)}, "class 1 of 4"),
        ({"y_test": np.array([0, 1, 3])}, "class 3 of 4"),
        ({"y_train": np.array([1, 2, 1, 2, 1, 2])}, "class 0 of 3"),
    ],
)
def test_gaps_between_the_classes_are_told(tmp_path: Path, changes: Arrays, missing: str) -> None:
    refused(written(tmp_path, parted() | changes), f"{missing} has no training image")


@pytest.mark.parametrize("as_npz", [True, False])
def test_pickled_objects_are_refused_and_not_run(tmp_path: Path, as_npz: bool) -> None:
    images = np.array([None] * 6, dtype=object)
    path = written(tmp_path, parted() | {"x_train": images}, as_npz, allow_pickle=True)
    refused(path, "allow_pickle=False")


def test_other_names_are_told_with_those_wanted(tmp_path: Path) -> None:
    arrays = parted()
    del arrays["y_test"]
    path = written(tmp_path, arrays)
    refused(path, "must hold arrays named x_train, y_train, x_test, y_test or .*holds x_test, x_train, y_train")
    np.savez(path, data=np.zeros(3))
    refused(path, "must hold arrays named")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("as_npz", [True, False])
def test_truncated_files_are_told(tmp_path: Path, share: float, as_npz: bool) -> None:
    path = written(tmp_path, parted(), as_npz)
    file = path if as_npz else path / "x_test.npy"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    refused(path, "cannot be read as NumPy arrays")


def test_damaged_compressed_arrays_are_told(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    arrays: Mapping[str, Any] = parted((30, 30))
    np.savez_compressed(path, **arrays)
    content = bytearray(path.read_bytes())
    for place in range(100, 200):
        content[place] ^= 0xFF
    path.write_bytes(content)
    refused(path, "cannot be read as NumPy arrays")


def test_a_single_array_named_as_several_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with path.open("wb") as file:
        np.save(file, picture(0, 3, 4, 4))
    refused(path)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_file_is_not_held_open(tmp_path: Path, share: float) -> None:
    path = written(tmp_path, parted())
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError) as caught:
        read_arrays(path, Reading())
    assert caught.tb is not None
    assert str(path) not in [file.path for file in psutil.Process().open_files()]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere.npz", "cannot be read")
