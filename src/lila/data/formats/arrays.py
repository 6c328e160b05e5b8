"""Images and labels as NumPy arrays: an `.npz` file, or a folder of `.npy` files, with the usual names."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lila.data.images import ImageData, ImageSet, split
from lila.errors import DataError

_PARTED: tuple[tuple[str, ...], ...] = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
)
_WHOLE: tuple[tuple[str, ...], ...] = (("x", "y"), ("images", "labels"))
NAMES = tuple(name for names in (*_PARTED, *_WHOLE) for name in names)

Arrays = Mapping[str, NDArray[np.generic]]


def read_arrays(path: Path, test_share: float = 0.2, seed: int = 0) -> ImageData:
    """Read images and labels from arrays.

    Args:
        path: an `.npz` file, or a folder of `.npy` files, with arrays x_train, y_train, x_test, y_test (or
            train_images, train_labels, ...), or x, y (or images, labels), which are then split. Images have the shape
            (n, h, w), (n, h, w, c) or (n, c, h, w), as uint8 or as real numbers in [0, 1].
        test_share: of the images, if they are not parted.
        seed: of that split.
    """
    arrays = _load(path)
    for names in _PARTED:
        if all(name in arrays for name in names):
            x, y, test_x, test_y = (arrays[name] for name in names)
            train, test = _image_set(path, x, y, names[:2]), _image_set(path, test_x, test_y, names[2:])
            if train.shape != test.shape:
                raise DataError(f"{path}: training images are {train.shape} but test images {test.shape}.")
            return ImageData(train, test, _classes(path, train.labels, test.labels))
    for names in _WHOLE:
        if all(name in arrays for name in names):
            whole = _image_set(path, arrays[names[0]], arrays[names[1]], names)
            classes = _classes(path, whole.labels)
            return ImageData(*split(whole, classes, test_share, seed), classes)
    wanted = " or ".join(", ".join(names) for names in (*_PARTED, *_WHOLE))
    raise DataError(f"{path} must hold arrays named {wanted}, but it holds {', '.join(sorted(arrays)) or 'none'}.")


def _load(path: Path) -> Arrays:
    try:
        if path.is_dir():
            return {name: np.load(path / f"{name}.npy") for name in NAMES if (path / f"{name}.npy").exists()}
        with path.open("rb") as opened, np.load(opened) as file:
            return {name: file[name] for name in NAMES if name in file.files}
    # ValueError is also what NumPy raises for pickled objects, which it refuses.
    except (ValueError, TypeError, OSError, BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as NumPy arrays: {error}.") from error


def _image_set(path: Path, x: NDArray[np.generic], y: NDArray[np.generic], names: tuple[str, ...]) -> ImageSet:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) or y.min(initial=0) < 0:
        raise DataError(
            f"{path}: {names[1]} must be classes 0, 1, ... of shape (n,), but is {y.dtype} of shape {y.shape}."
        )
    pixels = _pixels(path, x, names[0])
    if len(pixels) != len(y) or len(y) == 0:
        raise DataError(f"{path}: {names[0]} has {len(pixels)} images but {names[1]} has {len(y)} labels.")
    return ImageSet(pixels, torch.from_numpy(y.astype(np.int64)))


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
    if not np.issubdtype(x.dtype, np.floating):
        raise DataError(f"{path}: {name} must be uint8, or real numbers in [0, 1], but is {x.dtype}.")
    if not (x.min(initial=0) >= 0 and x.max(initial=0) <= 1):
        raise DataError(
            f"{path}: {name} must be uint8, or real numbers in [0, 1], but is {x.dtype} from {x.min()} to {x.max()}."
        )
    return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))


def _classes(path: Path, *labels: Tensor) -> tuple[str, ...]:
    """The classes 0, 1, ..., each of which must have a training image."""
    count = int(max(int(part.max()) for part in labels)) + 1
    if count < 2:
        raise DataError(f"{path} holds a single class; there is nothing to tell apart.")
    present = labels[0].unique()
    if len(present) < count:
        missing = next((i for i, label in enumerate(present.tolist()) if label != i), len(present))
        raise DataError(f"{path}: class {missing} of {count} has no training image. Number the classes without gaps.")
    return tuple(map(str, range(count)))
