import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from written import IDX_TYPES, idx_bytes

from lila.data.formats.idx import read_idx
from lila.errors import DataError

SHAPES: list[tuple[int, ...]] = [(4,), (2, 3), (2, 3, 4), (2, 1, 3, 2), (0, 3, 3)]
SMALL = idx_bytes(np.arange(12, dtype=np.uint8).reshape(3, 4))


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", IDX_TYPES)
def test_what_was_written_is_read(tmp_path: Path, dtype: str, shape: tuple[int, ...], zipped: bool) -> None:
    array = np.random.default_rng(0).normal(scale=60, size=shape).astype(np.int8).astype(dtype)
    path = tmp_path / "numbers"
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    found = read_idx(path)
    assert found.numpy().dtype == np.dtype(dtype)
    assert found.shape == shape
    assert np.array_equal(found.numpy(), array)


def test_integers_of_several_bytes_are_big_endian_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes([0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 0, 255, 255, 255, 254]))
    assert read_idx(path).tolist() == [256, -2]


def test_the_content_tells_whether_it_is_gzipped_and_the_name_does_not(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "plain.gz", tmp_path / "zipped"
    plain.write_bytes(SMALL)
    zipped.write_bytes(gzip.compress(SMALL, mtime=0))
    assert torch.equal(read_idx(plain), read_idx(zipped))


def test_the_result_can_be_written_to(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(SMALL)
    found = read_idx(path)
    found[0, 0] = 7
    assert int(found[0, 0]) == 7


@pytest.mark.parametrize("length", range(len(SMALL)))
def test_a_file_that_ends_early_is_refused_wherever_it_ends(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut-short"
    path.write_bytes(SMALL[:length])
    with pytest.raises(DataError, match="not an IDX file" if length < 4 else "truncated") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_file_that_goes_on_is_refused_with_both_lengths(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(SMALL + b"\0")
    with pytest.raises(DataError, match=r"too long.* 24 bytes \(an array of 3 x 4\), but there are 25") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "start", [b"\1\0\x08\1", b"\0\1\x08\1", b"\0\0\x07\1", b"\0\0\x0a\1", b"\0\0\x08\0", b"\x89PNG"]
)
def test_another_kind_of_file_is_refused_with_its_first_bytes(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(start + b"\0\0\0\1\0")
    with pytest.raises(DataError, match=f"not an IDX file.*{start.hex(' ')}") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_header_that_promises_more_than_memory_holds_is_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes([0, 0, 0x0E, 4]) + b"\xff" * 16 + b"few")
    with pytest.raises(DataError, match="truncated"):
        read_idx(path)


@pytest.mark.parametrize("dimensions", [65, 255])
def test_more_dimensions_than_arrays_can_have_are_refused(tmp_path: Path, dimensions: int) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes([0, 0, 0x08, dimensions]) + struct.pack(">I", 1) * dimensions + b"\7")
    with pytest.raises(DataError) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("length", range(2, len(gzip.compress(SMALL, mtime=0))))
def test_a_gzipped_file_that_ends_early_is_refused_wherever_it_ends(tmp_path: Path, length: int) -> None:
    path = tmp_path / "numbers.gz"
    path.write_bytes(gzip.compress(SMALL, mtime=0)[:length])
    with pytest.raises(DataError, match="cannot be decompressed") as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("place", [2, 12, 20, -8, -6, -1])
def test_a_gzipped_file_with_a_wrong_byte_is_refused(tmp_path: Path, place: int) -> None:
    content = bytearray(gzip.compress(SMALL, mtime=0))
    content[place] ^= 0xFF
    path = tmp_path / "numbers.gz"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataError, match="cannot be read") as caught:
            read_idx(path)
        assert str(path) in str(caught.value)
