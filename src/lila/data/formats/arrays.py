"""Images or time series, and labels, as NumPy arrays: an `.npz` file or a folder of `.npy` files, with usual names."""

import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lila.data.formats.format import Format, Reading
from lila.data.images import ImageData, ImageSet, numbered_classes
from lila.data.unpacking import check_memory, check_unpacked, decoding, open_regular
from lila.errors import DataError

_DIVIDED: tuple[tuple[str, ...], ...] = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("train_series", "train_labels", "test_series", "test_labels"),
)
_WHOLE: tuple[tuple[str, ...], ...] = (("x", "y"), ("images", "labels"), ("series", "labels"))
_NAMES = tuple(name for names in (*_DIVIDED, *_WHOLE) for name in names)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Arrays(Format):
    """An `.npz` file, or a folder of `.npy` files."""

    name = "arrays"
    title = "NumPy arrays (an .npz file, or a folder of .npy files)"

    def recognises(self, path: Path) -> bool:
        if path.is_file():
            return path.suffix == ".npz"
        return any((path / f"{name}.npy").exists() for name in _NAMES)

    def read(self, path: Path, reading: Reading) -> ImageData:
        return read_arrays(path, reading)


def read_arrays(path: Path, reading: Reading) -> ImageData:
    """Read images and labels from arrays.

    Args:
        path: an `.npz` file, or a folder of `.npy` files, with arrays x_train, y_train, x_test, y_test (or
            train_images, train_labels, ...), or x, y (or images, labels), which are then split. Images have the shape
            (n, h, w), (n, h, w, c) or (n, c, h, w), as uint8 or as real numbers in [0, 1]. Time series are named
            train_series, train_labels, test_series, test_labels, or series, labels; they have the shape (n, t) or
            (n, c, t), and are any real numbers.
        reading: how the images are split, if they are not divided into training and test.
    """
    arrays = _load(path)
    for names in _DIVIDED:
        if all(name in arrays for name in names):
            x, y, test_x, test_y = (arrays[name] for name in names)
            train, test = _image_set(path, x, y, names[:2]), _image_set(path, test_x, test_y, names[2:])
            if train.shape != test.shape:
                raise DataError(f"{path}: training images are {train.shape} but test images {test.shape}.")
            return ImageData(train, test, numbered_classes(path, train.labels, test.labels))
    for names in _WHOLE:
        if all(name in arrays for name in names):
            whole = _image_set(path, arrays[names[0]], arrays[names[1]], names)
            return reading.split(whole, numbered_classes(path, whole.labels))
    wanted = " or ".join(", ".join(names) for names in (*_DIVIDED, *_WHOLE))
    raise DataError(f"{path} must hold arrays named {wanted}, but it holds {', '.join(sorted(arrays)) or 'none'}.")


def _load(path: Path) -> Mapping[str, NDArray[np.generic]]:
    with decoding(f"{path} cannot be read as NumPy arrays"):
        return _load_npy_files(path) if path.is_dir() else _load_npz(path)


def _load_npy_files(folder: Path) -> dict[str, NDArray[np.generic]]:
    paths = {name: folder / f"{name}.npy" for name in _NAMES if (folder / f"{name}.npy").exists()}
    arrays = {}
    for name, path in paths.items():
        with open_regular(path) as file:
            check_memory(path, path.stat().st_size)
            arrays[name] = _read_npy(file, path.stat().st_size)  # type: ignore[arg-type]
    return arrays


def _load_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    with open_regular(path) as file, zipfile.ZipFile(file) as packed:
        present = {entry.filename: entry for entry in packed.infolist()}
        entries = {name: present[f"{name}.npy"] for name in _NAMES if f"{name}.npy" in present}
        size = sum(entry.file_size for entry in entries.values())  # zipfile reads no more than these sizes
        check_unpacked(path, size)
        check_memory(path, size)
        arrays = {}
        for name, entry in entries.items():
            with packed.open(entry) as content:
                arrays[name] = _read_npy(content, entry.file_size)
    return arrays


def _read_npy(file: IO[bytes], size: int) -> NDArray[np.generic]:
    """Read an array whose file, header included, has `size` bytes; allocate nothing before that is checked.

    Raises:
        ValueError: the file is not valid, or holds Python objects, which would have to be unpickled.
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not known")
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("Python objects are not read (allow_pickle=False), as unpickling them would run any program")
    expected, there = prod(shape) * dtype.itemsize, size - file.tell()
    if min(shape, default=0) < 0 or expected != there:
        raise ValueError(f"its header promises {dtype} of shape {shape}, {expected} bytes, but there are {there}")
    content = bytearray(file.read())
    return np.ndarray(shape, dtype, content, order="F" if is_fortran else "C")


def _image_set(path: Path, x: NDArray[np.generic], y: NDArray[np.generic], names: tuple[str, ...]) -> ImageSet:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 1 and y.dtype.kind == "i" and y.min(initial=0) < 0:
        raise DataError(f"{path}: {names[1]} must be classes 0, 1, ..., but one of them is {y.min()}.")
    if y.ndim != 1 or y.dtype.kind not in "iu" or not y.max(initial=0) < 2**63:
        raise DataError(
            f"{path}: {names[1]} must be classes 0, 1, ... of shape (n,), but is {y.dtype} of shape {y.shape}."
        )
    of_series = "series" in names[0]
    pixels = (_values if of_series else _pixels)(path, x, names[0])
    if len(pixels) != len(y) or len(y) == 0:
        what = "series" if of_series else "images"
        raise DataError(f"{path}: {names[0]} has {len(pixels)} {what} but {names[1]} has {len(y)} labels.")
    return ImageSet(pixels, torch.from_numpy(y.astype(np.int64)), of_series)


def _values(path: Path, x: NDArray[np.generic], name: str) -> Tensor:
    """Return time series of shape (n, c, t), in float32."""
    if x.ndim == 2:
        x = x[:, None]
    if x.ndim != 3 or x.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: {name} must be real numbers of shape (n, t), or (n, c, t) for series of several channels, but is "
            f"{x.dtype} of shape {x.shape}."
        )
    with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, and is refused with the series
        return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def _pixels(path: Path, x: NDArray[np.generic], name: str) -> Tensor:
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise DataError(
            f"{path}: {name} must be grey or colour images of shape (n, h, w), (n, h, w, c) or (n, c, h, w), but has "
            f"shape {x.shape}."
        )
    if x.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(x))
    if x.dtype.kind != "f":
        raise DataError(f"{path}: {name} must be uint8, or real numbers in [0, 1], but is {x.dtype}.")
    if not (x.min(initial=0) >= 0 and x.max(initial=0) <= 1):
        raise DataError(
            f"{path}: {name} must be uint8, or real numbers in [0, 1], but is {x.dtype} from {x.min()} to {x.max()}. "
            "Time series are given as arrays named series and labels, or train_series, train_labels, test_series and "
            "test_labels."
        )
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
