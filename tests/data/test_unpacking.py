"""Files that unpack to far more than they are, and files that are no files."""

import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from written import idx_bytes, write_class_folders, write_idx_folder

from lila.data import unpacking
from lila.data.formats import Reading
from lila.data.image_files import read_image
from lila.data.images import ImageData
from lila.data.read import read
from lila.data.unpacking import BoundedFile, unpack_limit
from lila.errors import ArgumentError, DataError, MemoryBudgetError

MIB = 2**20
ZEROS = bytes(16 * MIB)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.delenv("LILA_UNPACK_LIMIT", raising=False)
    return tmp_path / "cache"


def idx_gzip(folder: Path) -> Path:
    """IDX files of 16 MiB of pixels."""
    write_idx_folder(folder)
    images = idx_bytes(np.zeros((1, 4096, 4096), dtype=np.uint8))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
    return folder


def npz(folder: Path) -> Path:
    np.savez_compressed(folder / "data.npz", x=np.zeros((4, 2048, 2048), dtype=np.uint8), y=np.arange(4) % 2)
    return folder / "data.npz"


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "data.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/zeros.png", ZEROS)
    return folder / "data.zip"


def tarred(folder: Path) -> Path:
    with tarfile.open(folder / "data.tar.gz", "w:gz") as file:
        member = tarfile.TarInfo("a/zeros.png")
        member.size = len(ZEROS)
        file.addfile(member, io.BytesIO(ZEROS))
    return folder / "data.tar.gz"


def tar_header(folder: Path) -> Path:
    """A tar whose extended header, which tarfile reads at once, has 16 MiB."""
    member = tarfile.TarInfo("long")
    member.type, member.size = tarfile.XHDTYPE, len(ZEROS)
    with gzip.open(folder / "data.tgz", "wb", 1) as file:
        file.write(member.tobuf() + ZEROS)
    return folder / "data.tgz"


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def picture_folder(folder: Path) -> Path:
    """A PNG of 4096 x 4096 pixels in 16 KB."""
    write_class_folders(folder)
    header = struct.pack(">IIBBBBB", 4096, 4096, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(4097 * 4096))
    content = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    (folder / "cat" / "00.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return folder


def empty_files_in_a_zip(folder: Path) -> Path:
    """A zip of so many empty files that they take 12 MiB on the disk."""
    with zipfile.ZipFile(folder / "data.zip", "w") as file:
        for i in range(3000):
            file.writestr(f"a/{i}.png", b"")
    return folder / "data.zip"


def empty_files_in_a_tar(folder: Path) -> Path:
    with tarfile.open(folder / "data.tar.gz", "w:gz") as file:
        for i in range(3000):
            file.addfile(tarfile.TarInfo(f"a/{i}.png"))
    return folder / "data.tar.gz"


BOMBS: tuple[Callable[[Path], Path], ...] = (
    idx_gzip,
    npz,
    zipped,
    tarred,
    tar_header,
    picture_folder,
    empty_files_in_a_zip,
    empty_files_in_a_tar,
)


@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_what_unpacks_to_more_than_the_limit_is_refused_with_the_variable(
    tmp_path: Path, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    source = make(tmp_path)
    monkeypatch.setenv("LILA_UNPACK_LIMIT", "8MiB")
    with pytest.raises(DataError, match=r"more than 8 MiB.*LILA_UNPACK_LIMIT=32MiB"):
        read(str(source), reading=Reading(test_share=0.5))
    assert not [path for path in cache.rglob("*") if path.name != "unpacked" and path.name != "lila"]


@pytest.mark.parametrize("make", [npz, zipped], ids=["npz", "zip"])
def test_the_ratio_is_limited_without_the_variable(
    tmp_path: Path, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 8 * MIB)
    with pytest.raises(DataError, match="more than 8 MiB, which is the limit for a file of"):
        read(str(make(tmp_path)), reading=Reading(test_share=0.5))


def test_the_limit_follows_size_ratio_and_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpack_limit(1000) == 256 * MIB
    assert unpack_limit(10 * MIB) == 1000 * MIB
    assert unpack_limit(2**40) == 8 * 2**30
    monkeypatch.setenv("LILA_UNPACK_LIMIT", "20GiB")
    assert unpack_limit(1000) == 20 * 2**30
    monkeypatch.setenv("LILA_UNPACK_LIMIT", "much")
    with pytest.raises(ArgumentError, match=r"LILA_UNPACK_LIMIT must be an amount of memory .* but is 'much'"):
        unpack_limit(1000)


def test_what_does_not_fit_into_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (npz(tmp_path), idx_gzip(tmp_path / "idx")):
        monkeypatch.setattr(unpacking, "available_bytes", lambda device: 4 * MIB)
        with pytest.raises(MemoryBudgetError, match=r"only 4 MiB of memory are free"):
            read(str(source))


def nested(levels: int) -> bytes:
    content, name = b"\x89PNG", "a.png"
    for _ in range(levels):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr(name, content)
        content, name = packed.getvalue(), "inner.zip"
    return content


@pytest.mark.parametrize("levels", [6, 700])
def test_nested_archives_are_refused(tmp_path: Path, levels: int) -> None:
    (tmp_path / "data.zip").write_bytes(nested(levels))
    with pytest.raises(DataError, match=r"inner\.zip is an archive inside of 4 others"):
        read(str(tmp_path / "data.zip"))


def idx_labels(folder: Path, labels: object) -> Path:
    write_idx_folder(folder)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(idx_bytes(np.array(labels, dtype="i4")))
    return folder


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 0, 1, 2**31 - 1], "class 3 of 2147483648 has no training image"),
        ([0, 2, 2, 0, 3, 3], "class 1 of 4 has no training image"),
        ([1, 2, 1, 2, 1, 2], "class 0 of 3 has no training image"),
    ],
)
def test_gaps_between_the_classes_of_idx_files_are_told(tmp_path: Path, labels: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(str(idx_labels(tmp_path, labels)))


def test_labels_too_large_for_any_class_are_told(tmp_path: Path) -> None:
    y = np.array([0, 1, 0, 2**64 - 1], dtype=np.uint64)
    np.savez(tmp_path / "data.npz", x=np.zeros((4, 2, 2), dtype=np.uint8), y=y)
    with pytest.raises(DataError, match="y must be classes 0, 1,"):
        read(str(tmp_path / "data.npz"))


@pytest.mark.parametrize("shape", [(4, 0, 0), (4, 0, 5), (4, 5, 0), (4, 1, 0, 3)])
def test_images_without_pixels_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros(shape, dtype=np.uint8), y=np.arange(4) % 2)
    with pytest.raises(DataError, match="at least 1"):
        read(str(tmp_path / "data.npz"), reading=Reading(test_share=0.5))
    if len(shape) == 3:
        write_idx_folder(tmp_path)
        for part in ("train", "t10k"):
            empty = np.zeros((6 if part == "train" else 3, *shape[1:]), dtype=np.uint8)
            (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(idx_bytes(empty))
        with pytest.raises(DataError, match="no side may be 0"):
            read(str(tmp_path))


def npy(header: bytes, content: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + content


@pytest.mark.parametrize(
    "content",
    [
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999, 4, 4)}\n", bytes(64)),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-4, 4, -4)}\n", bytes(64)),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551616,)}\n", bytes(64)),
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}\n", b"\x80\x04N."),
        npy(b"{'descr': '|V0', 'fortran_order': False, 'shape': (4, 4, 4)}\n"),
        npy(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 2, 2)}\n", bytes(64)),
        npy(b"(" * 5000 + b"\n"),
        npy(b"{'descr': '\xff\n"),
        npy(b"\n", version=3),
        npy(b"", b"", version=2)[:9] + b"\xff\xff\xff\x7f",
        npy(b"{'descr': 7, 'fortran_order': False, 'shape': (4,)}\n"),
        npy(b"{'descr': '<m8[s]', 'fortran_order': False, 'shape': (4,)}\n", bytes(32)),
    ],
)
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
@pytest.mark.parametrize("as_npz", [True, False])
@pytest.mark.parametrize("name", ["x", "y"])
def test_odd_headers_of_arrays_are_told(tmp_path: Path, content: bytes, as_npz: bool, name: str) -> None:
    source = tmp_path / "data.npz" if as_npz else tmp_path
    other = io.BytesIO()
    np.save(other, np.arange(4) % 2 if name == "x" else np.zeros((4, 2, 2)))
    files = {f"{name}.npy": content, f"{'y' if name == 'x' else 'x'}.npy": other.getvalue()}
    if as_npz:
        with zipfile.ZipFile(source, "w") as packed:
            for path, written in files.items():
                packed.writestr(path, written)
    else:
        for path, written in files.items():
            (tmp_path / path).write_bytes(written)
    with pytest.raises(DataError) as caught:
        read(str(source), reading=Reading(test_share=0.5))
    assert str(source) in str(caught.value)


def test_a_compression_that_is_not_known_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros((4, 2, 2), dtype=np.uint8), y=np.arange(4) % 2)
    content = bytearray(path.read_bytes())
    for header, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(header) + offset] = 99
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as NumPy arrays"):
        read(str(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("name", ["x.npy", "data_batch_1.bin", "train-images-idx3-ubyte", "cat/1.png"])
def test_a_pipe_inside_a_folder_is_refused_at_once(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    (folder / name).parent.mkdir(parents=True)
    os.mkfifo(folder / name)
    with pytest.raises(DataError):
        read(str(folder))
    with pytest.raises(DataError, match="not a regular file"):
        read_image(folder / name, 1, (1, 1), True)


def test_a_file_of_another_kind_of_image_is_not_opened(tmp_path: Path) -> None:
    """Pillow would start Ghostscript for this one."""
    path = tmp_path / "a.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 2 2\n%%EndComments\nshowpage\n")
    with pytest.raises(DataError, match="is not an image"):
        read_image(path, 1, (2, 2), True)


def test_a_bounded_file_ends_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(10)))
    with BoundedFile(path.open("rb"), path, 10) as file:
        assert file.read(4) == bytes(range(4))
        assert file.read() == bytes(range(4, 10))
        assert file.seek(2) == file.tell() == 2
        assert file.read(2**60) == bytes(range(2, 10))
    with BoundedFile(path.open("rb"), path, 9) as file:
        assert file.read(9) == bytes(range(9))
        for action in (file.read, lambda: file.seek(10)):
            with pytest.raises(DataError, match="would unpack to more"):
                action()
    assert file.closed


def test_data_that_a_format_has_got_wrong_is_told(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    good = read(str(tmp_path))
    pixels = torch.rand(len(good.train), 1, 4, 6)

    def with_train(images: torch.Tensor, labels: torch.Tensor) -> ImageData:
        return ImageData(type(good.train)(images, labels), good.test, good.classes)

    labels = good.train.labels
    with_train(pixels, labels).check(tmp_path)
    for wrong, message in (
        (with_train(pixels[:1], labels), r"labels must be 1 numbers of type int64"),
        (with_train(pixels, labels.float()), r"labels must be .* but are torch.float32"),
        (with_train(pixels, labels + 1), r"range from 1 to 2, but there are 2 classes"),
        (with_train(pixels * 2, labels), r"real numbers in \[0, 1\]"),
        (with_train(pixels * torch.nan, labels), r"real numbers in \[0, 1\]"),
        (with_train(pixels.long(), labels), r"real numbers in \[0, 1\]"),
        (with_train(pixels[:, 0], labels), r"have shape \(8, 4, 6\)"),
        (with_train(pixels[..., :3], labels), r"training images are \(1, 4, 3\) but test images \(1, 4, 6\)"),
        (ImageData(good.train, good.test, ("all",)), "a single class"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            wrong.check(tmp_path)
        assert str(tmp_path) in str(caught.value)
