"""Bad files, each of which must be named, and none of which may leave a run or a part of one behind."""

import gzip
import io
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import Lila


def idx(folder: Path, name: str, *shape: int, magic: bytes = b"\0\0\x08", cut: int = 0) -> None:
    """A gzipped IDX file, possibly with another beginning, or without its end."""
    content = magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    content += bytes(i % 2 for i in range(int(np.prod(shape))))
    (folder / f"{name}.gz").write_bytes(gzip.compress(content[: len(content) - cut], mtime=0))


def idx_folder(folder: Path) -> None:
    for part in ("train", "t10k"):
        idx(folder, f"{part}-images-idx3-ubyte", 6, 8, 8)
        idx(folder, f"{part}-labels-idx1-ubyte", 6)


def truncated_idx(folder: Path, photos: Path) -> str:
    idx_folder(folder)
    idx(folder, "t10k-images-idx3-ubyte", 6, 8, 8, cut=9)
    return "t10k-images-idx3-ubyte.gz is truncated"


def wrong_magic(folder: Path, photos: Path) -> str:
    idx_folder(folder)
    idx(folder, "train-labels-idx1-ubyte", 6, magic=b"PNG")
    return "train-labels-idx1-ubyte.gz is not an IDX file"


def labels_of_another_length(folder: Path, photos: Path) -> str:
    idx_folder(folder)
    idx(folder, "train-labels-idx1-ubyte", 5)
    return "train-labels-idx1-ubyte.gz one of 5"


def mixed_sizes(folder: Path, photos: Path) -> str:
    shutil.copytree(photos, folder, dirs_exist_ok=True)
    Image.new("RGB", (9, 8)).save(folder / "red" / "wide.png")
    return "wide.png is 8 x 9"


def class_without_image(folder: Path, photos: Path) -> str:
    shutil.copytree(photos, folder, dirs_exist_ok=True)
    (folder / "yellow").mkdir()
    return "yellow holds no image"


def not_an_image(folder: Path, photos: Path) -> str:
    shutil.copytree(photos, folder, dirs_exist_ok=True)
    (folder / "red" / "text.png").write_text("no image")
    return "text.png is not an image"


def truncated_image(folder: Path, photos: Path) -> str:
    shutil.copytree(photos, folder, dirs_exist_ok=True)
    path = folder / "blue" / "3.png"
    path.write_bytes(path.read_bytes()[:80])
    return "3.png is damaged"


def climbing_archive(folder: Path, photos: Path) -> str:
    with tarfile.open(folder / "images.tar.gz", "w:gz") as packed:
        packed.add(photos, "photos")
        member = tarfile.TarInfo("../escaped.png")
        packed.addfile(member, io.BytesIO())
    return "'../escaped.png', which would be written outside"


def pickled_cifar(folder: Path, photos: Path) -> str:
    (folder / "data_batch_1").write_bytes(b"\x80\x02}q")
    return "Get the binary version instead: cifar-10-binary.tar.gz"


BAD: tuple[Callable[[Path, Path], str], ...] = (
    truncated_idx,
    wrong_magic,
    labels_of_another_length,
    mixed_sizes,
    class_without_image,
    not_an_image,
    truncated_image,
    climbing_archive,
    pickled_cifar,
)


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_bad_data_is_named_and_leaves_nothing_behind(
    lila: Lila, photos: Path, tmp_path: Path, make: Callable[[Path, Path], str]
) -> None:
    folder, cache = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    words = make(folder, photos)
    done = lila("train", folder, "--out", tmp_path / "run", XDG_CACHE_HOME=str(cache))
    assert done.returncode == 3, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "escaped.png").exists()
    assert not any(path.is_file() for path in cache.rglob("*"))
