"""Reading a data set from its name or its path, whatever it is stored as."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import torch

from lila.data.formats import arrays, cifar
from lila.data.formats.archives import is_archive, unpack
from lila.data.formats.arrays import read_arrays
from lila.data.formats.cifar import read_cifar, refuse_pickled
from lila.data.formats.digits import read_digits
from lila.data.formats.folder import read_folder
from lila.data.formats.idx import read_idx
from lila.data.images import ImageData, ImageSet
from lila.data.sources import KNOWN, data_folder, find, find_file
from lila.errors import ArgumentError, DataError

DIGITS = "digits"
_IDX_PARTS = ("train", "t10k")
_CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


@dataclass(frozen=True)
class Reading:
    """How to read a data set, as far as its files leave it open.

    Attributes:
        size: (height, width) to which the images of a folder are resized; None if all have the same.
        test_share: of the images, if they are not parted into training and test.
        seed: of that split.
    """

    size: tuple[int, int] | None = None
    test_share: float = 0.2
    seed: int = 0


def read(source: str, data_dir: Path | None = None, how: Reading | None = None) -> ImageData:
    """Read a data set.

    Args:
        source: a name that `lila data list` shows, which goes before a path of that name, or a path: a folder of images
            per class, IDX files, CIFAR-10's binary version, `.npz` or `.npy` arrays, or an archive of these.
        data_dir: where data sets known by name are; LILA_DATA or the user's own if None.
        how: what the files leave open.
    """
    how = how or Reading()
    data = _read_source(source, data_dir, how)
    if how.size is not None and data.train.shape[1:] != how.size:
        raise ArgumentError(
            f"Only images in folders are resized, but {source} holds {data.train.shape[1]} x {data.train.shape[2]} "
            "pixels in other files. Leave the size out, or resize the arrays yourself."
        )
    return data


def _read_source(source: str, data_dir: Path | None, how: Reading) -> ImageData:
    if source == DIGITS:
        return read_digits(how.seed)
    path = Path(source)
    if source in KNOWN:
        found = find(KNOWN[source], data_dir)
        if found is None:
            raise DataError(
                f"{source} is not in {data_folder(data_dir)}. Get it with `lila data get {source}`, or say where it is "
                "with --data-dir or the variable LILA_DATA."
            )
        path = found
    if not path.exists():
        known = ", ".join((DIGITS, *KNOWN))
        raise DataError(f"There is no data set {source!r}: it is neither a path nor one of {known}.")
    return _read_path(path, how)


def _read_path(path: Path, how: Reading) -> ImageData:
    for recognised, reader in _READERS:
        if recognised(path):
            return reader(path, how)
    raise DataError(f"{path} is not a data set that can be read: {', '.join(_FORMS)}.")


def _read_idx_folder(folder: Path, how: Reading) -> ImageData:
    train, test = (_idx_part(folder, part) for part in _IDX_PARTS)
    if train.shape != test.shape:
        raise DataError(f"{folder}: training images are {train.shape} but test images {test.shape}.")
    count = int(max(train.labels.max(), test.labels.max())) + 1
    is_fashion = "fashion" in folder.name and count == len(_CLOTHES)
    return ImageData(train, test, _CLOTHES if is_fashion else tuple(map(str, range(count))))


def _idx_part(folder: Path, part: str) -> ImageSet:
    paths = [find_file(folder, f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    if paths[0] is None or paths[1] is None:
        missing = f"{part}-{'images-idx3' if paths[0] is None else 'labels-idx1'}-ubyte"
        raise DataError(f"{folder} holds IDX files, but {missing} (or {missing}.gz) is not among them.")
    images, labels = read_idx(paths[0]), read_idx(paths[1])
    if images.dim() != 3 or labels.dim() != 1 or len(images) != len(labels) or len(images) == 0:
        raise DataError(
            f"{paths[0]} holds an array of {' x '.join(map(str, images.shape))} and {paths[1]} one of "
            f"{' x '.join(map(str, labels.shape))}, but there must be as many labels as images."
        )
    if images.dtype != torch.uint8:
        raise DataError(f"{paths[0]} must hold bytes, but holds {images.dtype}.")
    if labels.is_floating_point() or labels.min() < 0:
        raise DataError(f"{paths[1]} must hold the number of a class for each image, but holds other numbers.")
    return ImageSet(images[:, None], labels.long())


def _read_cifar_folder(folder: Path, how: Reading) -> ImageData:
    inside = (folder / cifar.FOLDER, folder / cifar.ARCHIVE)
    return read_cifar(next((path for path in inside if path.exists()), folder))


def _read_arrays(path: Path, how: Reading) -> ImageData:
    return read_arrays(path, how.test_share, how.seed)


def _read_archive(archive: Path, how: Reading) -> ImageData:
    if archive.name == cifar.ARCHIVE:
        return read_cifar(archive)
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    target = platformdirs.user_cache_path("lila") / "unpacked" / digest[:32]
    if not target.exists():
        unpack(archive, target)
    folders = [path for path in target.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    # An archive of a single folder is that folder, unless the folder is a part or a class.
    single = len(folders) == 1 and folders[0].name != "train"
    return _read_path(folders[0] if single else target, how)


def _only_archive(path: Path) -> Path | None:
    inside = [child for child in path.iterdir() if not child.name.startswith(".")] if path.is_dir() else []
    return inside[0] if len(inside) == 1 and is_archive(inside[0]) else None


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda path: any((path / name).exists() for name in names)


_READERS: tuple[tuple[Callable[[Path], bool], Callable[[Path, Reading], ImageData]], ...] = (
    (lambda path: path.is_file() and is_archive(path), _read_archive),
    (lambda path: path.is_file() and path.suffix == ".npz", _read_arrays),
    (_has(*(f"{part}-images-idx3-ubyte{end}" for part in _IDX_PARTS for end in ("", ".gz"))), _read_idx_folder),
    (_has("data_batch_1.bin", cifar.FOLDER, cifar.ARCHIVE), _read_cifar_folder),
    (_has(*cifar.PICKLED), lambda path, how: refuse_pickled(path)),
    (_has(*(f"{name}.npy" for name in arrays.NAMES)), _read_arrays),
    (
        lambda path: _only_archive(path) is not None,
        lambda path, how: _read_archive(_only_archive(path) or path, how),
    ),
    (Path.is_dir, lambda path, how: read_folder(path, how.size, how.test_share, how.seed)),
)
"""What tells a form of storage, and what reads it; the first that fits is taken."""

_FORMS = (
    "a folder of images per class",
    "IDX files",
    "CIFAR-10's binary version",
    "an .npz file",
    "a folder of .npy files",
    "an archive",
)
