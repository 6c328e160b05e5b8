import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from written import CIFAR_FILES, cifar_record, write_cifar_folder

from lila.data.formats.cifar import ARCHIVE, CLASSES, FOLDER, read_cifar, refuse_pickled
from lila.errors import DataError


def packed(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, FOLDER)
    return archive


@pytest.mark.parametrize("as_archive", [False, True])
def test_folder_and_archive_hold_the_images_in_order(tmp_path: Path, as_archive: bool) -> None:
    folder = tmp_path / FOLDER
    write_cifar_folder(folder)
    (folder / "batches.meta.txt").write_text("airplane\n")
    data = read_cifar(packed(folder, tmp_path / ARCHIVE) if as_archive else folder)
    assert data.classes == CLASSES
    assert data.train.labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert data.test.labels.tolist() == [5, 6]
    assert data.train.labels.dtype == torch.int64
    assert data.train.shape == data.test.shape == (3, 32, 32)
    assert isinstance(data.train.pixels, torch.Tensor)
    assert data.train.pixels.dtype == torch.uint8
    # The second record of the third file is that of seed 21: a label, then all red, all green, all blue values.
    expected = np.frombuffer(cifar_record(3, 21)[1:], dtype=np.uint8).reshape(3, 32, 32)
    assert np.array_equal(data.train.pixels[5].numpy(), expected)
    assert data.train.pixels[5, 1, 2, 3] == cifar_record(3, 21)[1 + 1024 + 2 * 32 + 3]


@pytest.mark.parametrize("name", CIFAR_FILES)
@pytest.mark.parametrize("as_archive", [False, True])
def test_a_missing_file_is_named(tmp_path: Path, as_archive: bool, name: str) -> None:
    folder = tmp_path / FOLDER
    write_cifar_folder(folder, records=1)
    (folder / name).unlink()
    source = packed(folder, tmp_path / ARCHIVE) if as_archive else folder
    with pytest.raises(DataError, match=name) as caught:
        read_cifar(source)
    assert str(source) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are not a whole number of records of 3073"),
        (cifar_record(1, 1)[:-1], "3072 bytes are not a whole number"),
        (cifar_record(1, 1) + b"\0", "3074 bytes are not a whole number"),
        (cifar_record(10, 1), "a label 10"),
        (cifar_record(0, 1) + cifar_record(255, 2), "a label 255"),
    ],
)
@pytest.mark.parametrize("as_archive", [False, True])
def test_a_damaged_file_is_named(tmp_path: Path, as_archive: bool, content: bytes, message: str) -> None:
    folder = tmp_path / FOLDER
    write_cifar_folder(folder)
    (folder / "data_batch_4.bin").write_bytes(content)
    source = packed(folder, tmp_path / ARCHIVE) if as_archive else folder
    with pytest.raises(DataError, match=message) as caught:
        read_cifar(source)
    assert str(source) in str(caught.value)
    assert "data_batch_4.bin" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_archive_is_named(tmp_path: Path, share: float) -> None:
    write_cifar_folder(tmp_path / FOLDER, records=1)
    archive = packed(tmp_path / FOLDER, tmp_path / ARCHIVE)
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"cannot be unpacked|does not hold") as caught:
        read_cifar(archive)
    assert str(archive) in str(caught.value)


def test_a_wrong_byte_in_an_archive_is_found_by_its_checksum(tmp_path: Path) -> None:
    write_cifar_folder(tmp_path / FOLDER, records=1)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.add(tmp_path / FOLDER, FOLDER)
    content = bytearray(gzip.compress(plain.getvalue(), compresslevel=0))
    content[content.index(cifar_record(2, 20)[:20]) + 10] ^= 1
    archive = tmp_path / ARCHIVE
    archive.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_cifar(archive)
    assert str(archive) in str(caught.value)


def test_nothing_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read") as caught:
        read_cifar(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(caught.value)


@pytest.mark.parametrize("name", ["data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz"])
def test_the_pickled_version_is_refused_and_the_binary_one_recommended(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(DataError, match=rf"pickles.*binary version.*{ARCHIVE}") as caught:
        refuse_pickled(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
