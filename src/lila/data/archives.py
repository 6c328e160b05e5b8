"""Unpacking archives: regular files only, inside the target only, and all of them or none."""

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from lila.errors import DataError
from lila.files import new_folder

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar or zip archive into a new folder, which appears when it is complete.

    Raises:
        DataError: the archive is damaged, or a member would be written outside the folder or is not a regular file.
    """
    with new_folder(target) as folder:
        try:
            for name, content in _members(archive):
                path = folder / _inside(archive, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file)
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise DataError(f"{archive} cannot be unpacked: {error}. Get the file again.") from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                if not entry.is_dir():
                    yield entry.filename, packed.open(entry)
        return
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            if member.isdir():
                continue
            content = packed_tar.extractfile(member) if member.isreg() else None
            if content is None:
                raise DataError(f"{archive} holds {member.name!r}, which is a link or a device. It was not unpacked.")
            yield member.name, content


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataError(f"{archive} holds {name!r}, which would be written outside its folder. It was not unpacked.")
    return path
