"""CIFAR-10 in its official binary version: six files of records, each a label byte and 3 x 32 x 32 pixel bytes."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from lila.data.formats.archives import members
from lila.data.formats.format import Format, Reading
from lila.data.images import ImageData, ImageSet
from lila.data.unpacking import check_memory, decoding, open_regular
from lila.errors import DataError

FOLDER = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_TEST = ("test_batch.bin",)
_PICKLED = ("data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz")


class Cifar(Format):
    """The official archive, the folder that it holds, or a folder that holds either of them."""

    name = "cifar"
    title = "CIFAR-10's binary version"

    def recognises(self, path: Path) -> bool:
        if path.is_file():
            return path.name == ARCHIVE
        return any((path / name).exists() for name in ("data_batch_1.bin", FOLDER, ARCHIVE, *_PICKLED))

    def read(self, path: Path, reading: Reading) -> ImageData:
        inside = (path, path / FOLDER, path / ARCHIVE)
        if path.is_dir() and not any((folder / "data_batch_1.bin").exists() or folder.is_file() for folder in inside):
            refuse_pickled(path)
        return read_cifar(next((place for place in inside[1:] if place.exists()), path))


def read_cifar(path: Path) -> ImageData:
    """Read the official archive `cifar-10-binary.tar.gz`, or the folder that it holds."""
    read = _archived(path) if path.is_file() else _from_folder(path)
    train, test = (_image_set([_records(path, name, read(name)) for name in names]) for names in (_TRAIN, _TEST))
    return ImageData(train, test, CLASSES)


def refuse_pickled(folder: Path) -> NoReturn:
    """Refuse the Python version, whose files are pickles: reading a pickle runs whatever its author put there."""
    pickled = next(folder / name for name in _PICKLED if (folder / name).exists())
    raise DataError(
        f"{pickled} belongs to CIFAR-10's Python version, whose files are pickles and are not read, as that would run "
        f"whatever is in them. Get the binary version instead: {ARCHIVE}, from "
        "https://www.cs.toronto.edu/~kriz/cifar.html."
    )


def _from_folder(folder: Path) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        with decoding(f"{folder / name} cannot be read"), open_regular(folder / name) as file:
            check_memory(folder / name, (folder / name).stat().st_size)
            return file.read()

    return read


def _archived(archive: Path) -> Callable[[str], bytes]:
    with members(archive) as found:
        contents = {path.name: file.read() for path, file in found if path.name in (*_TRAIN, *_TEST)}

    def read(name: str) -> bytes:
        if name not in contents:
            raise DataError(f"{archive} does not hold {name}: it is not the binary version of CIFAR-10.")
        return contents[name]

    return read


def _image_set(records: list[Tensor]) -> ImageSet:
    joined = torch.cat(records)
    return ImageSet(joined[:, 1:].reshape(-1, *_SHAPE), joined[:, 0].long())


def _records(path: Path, name: str, content: bytes) -> Tensor:
    if not content or len(content) % _RECORD:
        raise DataError(
            f"{name} in {path} is truncated or does not belong to CIFAR-10's binary version: its {len(content)} bytes "
            f"are not a whole number of records of {_RECORD}. Get the file again."
        )
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(-1, _RECORD)
    largest = int(records[:, 0].max())
    if largest >= len(CLASSES):
        raise DataError(
            f"{name} in {path} does not belong to CIFAR-10's binary version: it has a label {largest}, but there are "
            f"{len(CLASSES)} classes."
        )
    return records
