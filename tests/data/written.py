"""Small data sets written to files, by code that shares nothing with what reads them."""

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

IDX_TYPES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def idx_bytes(array: NDArray[Any]) -> bytes:
    code = IDX_TYPES[array.dtype.str[1:]]
    header = bytes([0, 0, code, array.ndim]) + b"".join(struct.pack(">I", side) for side in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_idx_folder(
    folder: Path, train: int = 6, test: int = 3, classes: int = 3, side: int = 5, zipped: bool = True
) -> dict[str, NDArray[Any]]:
    """The four files of a data set like MNIST, and what is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    arrays = {
        f"{part}-{kind}": made
        for part, n in (("train", train), ("t10k", test))
        for kind, made in (
            ("images-idx3-ubyte", random.integers(0, 256, (n, side, side), dtype=np.uint8)),
            ("labels-idx1-ubyte", (np.arange(n) % classes).astype(np.uint8)),
        )
    }
    for name, array in arrays.items():
        content = idx_bytes(array)
        (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    return arrays


def cifar_record(label: int, seed: int) -> bytes:
    return bytes([label]) + np.random.default_rng(seed).integers(0, 256, 3 * 32 * 32, dtype=np.uint8).tobytes()


def write_cifar_folder(folder: Path, records: int = 2) -> None:
    """Six files of a few records; the labels of file i are i, i + 1, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(CIFAR_FILES):
        (folder / name).write_bytes(b"".join(cifar_record(i + j, 10 * i + j) for j in range(records)))


def picture(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_image(path: Path, pixels: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_class_folders(
    folder: Path, classes: Sequence[str] = ("cat", "dog"), count: int = 5, shape: tuple[int, ...] = (4, 6)
) -> dict[str, NDArray[np.uint8]]:
    """A folder of PNG images per class, and the pixels of each image by `class/name`."""
    written = {}
    for number, name in enumerate(classes):
        for i in range(count):
            pixels = picture(100 * number + i, *shape)
            write_image(folder / name / f"{i:02}.png", pixels)
            written[f"{name}/{i:02}.png"] = pixels
    return written
