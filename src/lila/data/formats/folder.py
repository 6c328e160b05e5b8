"""A folder of images per class: `train/` and `test/` with the same classes, or the classes at once, then split."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from lila.data.images import SUFFIXES, ImageData, ImageFiles, ImageSet, image_paths, look_at_images, split
from lila.errors import DataError

Files = Mapping[str, list[Path]]


def read_folder(folder: Path, size: tuple[int, int] | None = None, test_share: float = 0.2, seed: int = 0) -> ImageData:
    """Find the images of a folder and check their headers; they are decoded when asked for.

    Args:
        folder: with `train/CLASS/*.png` and `test/CLASS/*.png`, or with `CLASS/*.png`; PNG, JPEG and the like.
        size: (height, width) to which all are resized; if None, all must have the same size.
        test_share: of each class, if there is no `test/` folder.
        seed: of that split.
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
    channels, sizes = look_at_images([path for part in found for path in _flat(part)])
    if size is None and len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise DataError(
            f"The images have different sizes: {first} is {one[0]} x {one[1]}, {second} is {other[0]} x {other[1]}. "
            "Give the size to which all are to be resized (--size on the command line)."
        )
    chosen, classes = size or next(iter(sizes)), tuple(found[0])
    sets = [ImageSet(ImageFiles(_flat(part), channels, chosen, size is not None), _labels(part)) for part in found]
    train, test = sets if len(sets) == 2 else split(sets[0], classes, test_share, seed)
    return ImageData(train, test, classes)


def _files(folder: Path) -> dict[str, list[Path]]:
    """The image files of each class, both in the order of their names."""
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
