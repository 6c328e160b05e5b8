"""Opening files that somebody else made: how much may be unpacked from one, and errors for those that are damaged.

A few megabytes of gzip, zip or PNG can hold gigabytes. What is unpacked from a file is therefore limited to `RATIO`
times the size of the file, or to `ALWAYS_ALLOWED` if that is more, and to `LARGEST` in any case. The environment
variable LILA_UNPACK_LIMIT ("16GiB") replaces these limits by one size.
"""

import errno
import gzip
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import torch

from lila._util.memory import available_bytes, parse_bytes, readable_bytes
from lila.errors import DataError, LilaError, MemoryBudgetError

VARIABLE = "LILA_UNPACK_LIMIT"
RATIO = 100
ALWAYS_ALLOWED = 256 * 2**20
LARGEST = 8 * 2**30
_CHUNK = 2**20
_GZIP = b"\x1f\x8b"
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def unpack_limit(packed: int) -> int:
    """Return how many bytes may be unpacked from a file of `packed` bytes."""
    given = os.environ.get(VARIABLE)
    return parse_bytes(given, VARIABLE) if given else min(LARGEST, max(ALWAYS_ALLOWED, RATIO * packed))


def check_unpacked(path: Path, size: int) -> None:
    """Raise DataError if `size` bytes are more than may be unpacked from a file."""
    packed = path.stat().st_size
    if size > unpack_limit(packed):
        raise _unpacks_too_much(path, packed)


def check_memory(path: Path, size: int) -> None:
    """Raise MemoryBudgetError if `size` bytes, the content of a file, do not fit into the memory that is free."""
    free = available_bytes(torch.device("cpu"))
    if size > free:
        raise MemoryBudgetError(
            f"{path} holds {readable_bytes(size)}, but only {readable_bytes(free)} of memory are free. Use a machine "
            "with more memory, or store the images as a folder of image files, which need not fit into memory."
        )


class BoundedFile(io.BufferedIOBase):
    """A readable file whose content must end before a limit.

    No read allocates more than is there: decoders ask for as many bytes as a damaged header tells them to.

    Args:
        file: the file, or the stream that unpacks it. It is closed with this object.
        path: the path of the file, for the error message.
        limit: the largest position that may be reached; None for a file that is not packed, which ends by itself.
    """

    def __init__(self, file: IO[bytes], path: Path, limit: int | None) -> None:
        self._file, self._path, self._limit = file, path, limit

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = sys.maxsize if size is None or size < 0 else size
        if self._limit is not None:
            wanted = min(wanted, self._limit + 1 - self._file.tell())
        chunks: list[bytes] = []
        while wanted > 0 and (chunk := self._file.read(min(wanted, _CHUNK))):
            chunks.append(chunk)
            wanted -= len(chunk)
        self._check(self._file.tell())
        return b"".join(chunks)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_SET:
            self._check(offset)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check(self, position: int) -> None:
        if self._limit is not None and position > self._limit:
            raise _unpacks_too_much(self._path, self._path.stat().st_size)


def open_regular(path: Path) -> BoundedFile:
    """Open a regular file for reading. Anything else is refused: reading a pipe could wait for ever.

    Raises:
        DataError: the path exists, but it is not a regular file.
        OSError: the file cannot be opened.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path} cannot be read: it is not a regular file.")
    return BoundedFile(path.open("rb"), path, None)


def open_unpacked(path: Path) -> BoundedFile:
    """Open a regular file, and unpack it while it is read if its first bytes say that it is gzipped.

    Raises:
        DataError: the path exists, but it is not a regular file.
        OSError: the file cannot be opened.
    """
    with open_regular(path) as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
    if not is_packed:
        return open_regular(path)
    return BoundedFile(gzip.open(path), path, unpack_limit(path.stat().st_size))  # type: ignore[arg-type]


def read_unpacked(path: Path) -> bytearray:
    """Read a regular file into memory, unpacked if it is gzipped.

    Raises:
        DataError: the file cannot be read, is damaged, or would unpack to too much.
        MemoryBudgetError: the content does not fit into memory.
    """
    content, free = bytearray(), available_bytes(torch.device("cpu"))
    with decoding(f"{path} cannot be read"):
        file = open_unpacked(path)
    with file, decoding(f"{path} is damaged: it cannot be decompressed", "Get the file again."):
        while chunk := file.read(_CHUNK):
            content += chunk
            if len(content) > free:
                check_memory(path, len(content))
    return content


def find_packed(folder: Path, name: str) -> Path | None:
    """Return the path of a file in a folder, gzipped (`name`) or plain (without .gz), or None if there is neither."""
    return next((path for path in (folder / name, folder / name.removesuffix(".gz")) if path.is_file()), None)


@contextmanager
def decoding(failure: str, advice: str = "") -> Iterator[None]:
    """Turn whatever a decoder raises for a damaged file into a DataError.

    The decoders of NumPy, Pillow, tarfile and zipfile raise almost any exception for damaged input, from KeyError to
    RecursionError, so nothing but a call of such a decoder belongs into the block.

    Args:
        failure: the beginning of the message, with the name of the file: "a.png is damaged".
        advice: what the user should do, as a sentence of its own.
    """
    try:
        yield
    except LilaError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
            raise
        told = str(error.strerror if isinstance(error, OSError) and error.strerror else error).strip(". \n")
        raise DataError(f"{failure}: {told or type(error).__name__}. {advice}".strip()) from error


def _unpacks_too_much(path: Path, packed: int) -> DataError:
    limit, given = unpack_limit(packed), os.environ.get(VARIABLE)
    if given:
        reason = f"the limit that {VARIABLE} sets"
    elif limit == LARGEST:
        reason = "the limit for any file"
    else:
        reason = f"the limit for a file of {readable_bytes(packed)}"
    more = readable_bytes(4 * limit).replace(" ", "")
    return DataError(
        f"{path} would unpack to more than {readable_bytes(limit)}, which is {reason}. If you trust the file, raise "
        f"the limit by the environment variable {VARIABLE}, for example {VARIABLE}={more}."
    )
