"""A folder of images per class: either `train/` and `test/` with the same classes, or the classes, which are split."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from lila.data.formats.format import Format, Reading
from lila.data.image_files import SUFFIXES, ImageFiles, image_paths, look_at_images
from lila.data.images import ImageData, ImageSet
from lila.errors import DataError

Files = Mapping[str, list[Path]]


class ClassFolders(Format):
    """A folder of images per class."""

    name = "folder"
    title = "a folder of images per class"

    def recognises(self, path: Path) -> bool:
        return path.is_dir()

    def read(self, path: Path, reading: Reading) -> ImageData:
        return read_folder(path, reading)


def read_folder(folder: Path, reading: Reading) -> ImageData:
    """Find the images of a folder and check their headers; they are decoded when their pixels are needed.

    Args:
        folder: a folder with `train/CLASS/*.png` and `test/CLASS/*.png`, or with `CLASS/*.png`; PNG, JPEG and the like.
        reading: the size to which all images are resized, and how they are split if there is no `test/` folder.
    """
    parts = [folder / "train", folder / "test"]
    there = [part.is_dir() for part in parts]
    if any(there) and not all(there):
        raise DataError(f"{folder} has a folder {'train' if there[0] else 'test'} but not the other one of the two.")
    found = [_files(part) for part in parts] if all(there) else [_files(folder)]
    if len(found) == 2 and list(found[0]) != list(found[1]):
        differing = ", ".join(sorted(set(found[0]) ^ set(found[1])))
        raise DataError(f"{parts[0]} and {parts[1]} must hold the same classes; these are in one only: {differing}.")
    if len(found[0]) < 2:
        raise DataError(
            f"{folder} must hold a folder of images for each of two or more classes, but it holds {len(found[0])}."
        )
    channels, size = _common_form([path for part in found for path in _flat(part)], reading.size)
    files = [ImageFiles(_flat(part), channels, size, reading.size is not None) for part in found]
    sets, classes = [ImageSet(*pair) for pair in zip(files, map(_labels, found), strict=True)], tuple(found[0])
    return ImageData(sets[0], sets[1], classes) if len(sets) == 2 else reading.split(sets[0], classes)


def _common_form(paths: list[Path], size: tuple[int, int] | None) -> tuple[int, tuple[int, int]]:
    """Return the channels and the size that all images have, or are brought to."""
    channels, sizes = look_at_images(paths)
    if size is None and len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise DataError(
            f"The images have different sizes: {first} is {one[0]} x {one[1]}, {second} is {other[0]} x {other[1]}. "
            "Give the size to which all are to be resized (--size on the command line)."
        )
    return channels, size or next(iter(sizes))


def _files(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of each class, both sorted by name."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = {of_class.name: image_paths(of_class) for of_class in classes}
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        raise DataError(f"{folder / empty[0]} holds no image ({', '.join(sorted(SUFFIXES))}). Fill or remove it.")
    return found


def _flat(files: Files) -> tuple[Path, ...]:
    return tuple(path for paths in files.values() for path in paths)


def _labels(files: Files) -> Tensor:
    counts = torch.tensor([len(paths) for paths in files.values()])
    return torch.arange(len(counts)).repeat_interleave(counts)
