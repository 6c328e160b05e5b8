"""IDX files, the format of MNIST and similar data sets: a header with type and sizes, then the numbers.

The header has two zero bytes, a byte for the type, a byte for the number of dimensions, and then each size as a
big-endian 32-bit integer. Files are plain or gzipped, which their first bytes tell, not their names.
"""

import struct
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lila.data.formats.format import Format, Reading
from lila.data.images import ImageData, ImageSet, numbered_classes
from lila.data.unpacking import decoding, find_packed, read_unpacked
from lila.errors import DataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_DIMENSIONS = 32
_PARTS = ("train", "t10k")
_CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


class IdxFiles(Format):
    """A folder with the four files of MNIST: images and labels for training (train-...) and for test (t10k-...)."""

    name = "idx"
    title = "IDX files"

    def recognises(self, path: Path) -> bool:
        return any((path / f"{part}-images-idx3-ubyte{end}").exists() for part in _PARTS for end in ("", ".gz"))

    def read(self, path: Path, reading: Reading) -> ImageData:
        train, test = (_image_set(path, part) for part in _PARTS)
        if train.shape != test.shape:
            raise DataError(f"{path}: training images are {train.shape} but test images {test.shape}.")
        classes = numbered_classes(path, train.labels, test.labels)
        is_fashion = "fashion" in path.name and len(classes) == len(_CLOTHES)
        return ImageData(train, test, _CLOTHES if is_fashion else classes)


def read_idx(path: Path) -> Tensor:
    """Read the array in an IDX file."""
    content = read_unpacked(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or not content[3]:
        raise DataError(f"{path} is not an IDX file: it starts with the bytes {content[:4].hex(' ') or '(none)'}.")
    dtype, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{path} is truncated: it ends within its header. Get the file again.")
    if dimensions > _MOST_DIMENSIONS:
        raise DataError(f"{path} cannot be read: its array has {dimensions} dimensions. Get the file again.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = start + prod(shape) * dtype.itemsize
    if len(content) != expected:
        what = "truncated" if len(content) < expected else "too long"
        raise DataError(
            f"{path} is {what}: its header promises {expected} bytes (an array of {' x '.join(map(str, shape))}), but "
            f"there are {len(content)}. Get the file again."
        )
    with decoding(f"{path} cannot be read", "Get the file again."):
        array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=False))


def _image_set(folder: Path, part: str) -> ImageSet:
    paths = [find_packed(folder, f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    if paths[0] is None or paths[1] is None:
        missing = f"{part}-{'images-idx3' if paths[0] is None else 'labels-idx1'}-ubyte"
        raise DataError(f"{folder} holds IDX files, but {missing} (or {missing}.gz) is not among them.")
    images, labels = read_idx(paths[0]), read_idx(paths[1])
    if images.dim() != 3 or labels.dim() != 1 or len(images) != len(labels) or not images.numel():
        raise DataError(
            f"{paths[0]} holds an array of {' x '.join(map(str, images.shape))} and {paths[1]} one of "
            f"{' x '.join(map(str, labels.shape))}, but there must be as many labels as images, and no side may be 0."
        )
    if images.dtype != torch.uint8:
        raise DataError(f"{paths[0]} must hold bytes, but holds {images.dtype}.")
    if labels.is_floating_point() or labels.min() < 0:
        raise DataError(f"{paths[1]} must hold the number of a class for each image, but holds other numbers.")
    return ImageSet(images[:, None], labels.long())
