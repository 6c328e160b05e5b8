"""IDX files, the format of MNIST and its kin: a header with type and sizes, then the numbers, plain or gzipped.

Header: two zero bytes, a byte for the type, a byte for the number of dimensions, then each size as a big-endian 32-bit
integer.
"""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lila.errors import DataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> Tensor:
    """The array in an IDX file, plain or gzipped (told by its first bytes, not by its name)."""
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or content[3] == 0:
        raise DataError(f"{path} is not an IDX file: it starts with the bytes {content[:4].hex(' ') or '(none)'}.")
    dtype, dimensions = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{path} is truncated: it ends within its header. Get the file again.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected = start + prod(shape) * dtype.itemsize
    if len(content) != expected:
        what = "truncated" if len(content) < expected else "too long"
        raise DataError(
            f"{path} is {what}: its header promises {expected} bytes (an array of {' x '.join(map(str, shape))}), but "
            f"there are {len(content)}. Get the file again."
        )
    try:
        array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    return torch.from_numpy(array.astype(dtype.newbyteorder("=")))


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged: it cannot be decompressed ({error}). Get the file again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
