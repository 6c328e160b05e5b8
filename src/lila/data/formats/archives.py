"""Unpacking archives: regular files only, inside the target only, and all of them or none."""

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from lila._util.files import new_folder
from lila.errors import DataError

Members = Generator[tuple[PurePosixPath, IO[bytes]], None, None]

_CHUNK = 2**20
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar or zip archive into a new folder, which appears when it is complete.

    Raises:
        DataError: the archive is damaged, or a member would be written outside the folder or is not a regular file.
    """
    with new_folder(target) as folder, members(archive) as found:
        for inside, content in found:
            path = folder / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)


@contextmanager
def members(archive: Path) -> Iterator[Members]:
    """The regular files of an archive, each with its checked path; the whole archive is read and checked in the end.

    Raises:
        DataError: see `unpack`.
    """
    with closing((_zip_members if archive.name.lower().endswith(".zip") else _tar_members)(archive)) as found:
        try:
            yield found
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise DataError(f"{archive} cannot be unpacked: {error}. Get the file again.") from error


def _zip_members(archive: Path) -> Members:
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            if entry.is_dir():
                continue
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise DataError(f"{archive} holds {entry.filename!r}, which is a link. It was not unpacked.")
            inside = _inside(archive, entry.filename)
            with packed.open(entry) as content:
                yield inside, content


def _tar_members(archive: Path) -> Members:
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isdir():
                continue
            content = packed.extractfile(member) if member.isreg() else None
            if content is None:
                raise DataError(f"{archive} holds {member.name!r}, which is a link or a device. It was not unpacked.")
            with content:
                yield _inside(archive, member.name), content
        _check_end(packed)


def _check_end(packed: tarfile.TarFile) -> None:
    """Raise unless a tar ends as it must: tarfile takes a broken header for the end, and leaves a checksum unread."""
    file = packed.fileobj
    assert file is not None
    file.seek(packed.offset)
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("a header is damaged or the end is missing")
    while file.read(_CHUNK):
        pass


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataError(f"{archive} holds {name!r}, which would be written outside its folder. It was not unpacked.")
    return path
