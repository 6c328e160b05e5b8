"""Archives: unpacked once into the cache, regular files only, inside the target only, and all of them or none."""

import hashlib
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

import platformdirs

from lila._util.files import new_folder
from lila.data.formats.format import Format, Reading, recognise
from lila.data.images import ImageData
from lila.data.unpacking import check_unpacked, decoding, open_regular, open_unpacked
from lila.errors import DataError

Members = Generator[tuple[PurePosixPath, IO[bytes]], None, None]

_CHUNK = 2**20
_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
_DEEPEST = 4  # archives inside of archives
_BLOCK = 4096  # bytes that a file takes on the disk at least, though it be empty


class Archive(Format):
    """A zip or tar archive of a data set in any format, or a folder that holds such an archive and nothing else."""

    name = "archive"
    title = "a .zip, .tar, .tar.gz or .tgz archive of a data set in another format"

    def recognises(self, path: Path) -> bool:
        return _find_archive(path) is not None

    def read(self, path: Path, reading: Reading) -> ImageData:
        archive = _find_archive(path) or path
        if reading.archives == _DEEPEST:
            raise DataError(f"{archive} is an archive inside of {_DEEPEST} others. Unpack the outer ones by hand.")
        inside = _unpacked_once(archive)
        return recognise(inside).read(inside, replace(reading, archives=reading.archives + 1))


def is_archive(path: Path) -> bool:
    """Return whether the name of a file is that of an archive."""
    return path.name.lower().endswith(_SUFFIXES)


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar or zip archive into a new folder, which appears when it is complete.

    Raises:
        DataError: the archive is damaged, would unpack to too much, or has a member that would be written outside the
            folder or is not a regular file.
    """
    with new_folder(target) as folder, members(archive) as found:
        for inside, content in found:
            path = folder / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)


@contextmanager
def members(archive: Path) -> Iterator[Members]:
    """Give the regular files of an archive, each with its checked path. At the end the whole archive was checked.

    Raises:
        DataError: see `unpack`.
    """
    with (
        closing((_zip_members if archive.name.lower().endswith(".zip") else _tar_members)(archive)) as found,
        decoding(f"{archive} cannot be unpacked", "Get the file again."),
    ):
        yield found


def _find_archive(path: Path) -> Path | None:
    """Return the archive at a path: the file itself, or the only file of a folder."""
    if path.is_dir():
        inside = [child for child in path.iterdir() if not child.name.startswith(".")]
        path = inside[0] if len(inside) == 1 else path
    return path if path.is_file() and is_archive(path) else None


def _unpacked_once(archive: Path) -> Path:
    """Return the folder in the cache with the content of an archive, which is unpacked if it is not there yet."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    target = platformdirs.user_cache_path("lila") / "unpacked" / digest[:32]
    if not target.exists():
        unpack(archive, target)
    children = [path for path in target.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    # An archive with a single folder stands for that folder, unless the folder is one of train/ and test/.
    return children[0] if len(children) == 1 and children[0].name != "train" else target


def _zip_members(archive: Path) -> Members:
    with open_regular(archive) as file, zipfile.ZipFile(file) as packed:
        entries = [entry for entry in packed.infolist() if not entry.is_dir()]
        check_unpacked(archive, sum(entry.file_size for entry in entries))  # zipfile reads no more than these sizes
        check_unpacked(archive, _BLOCK * len(entries))
        for entry in entries:
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise DataError(f"{archive} holds {entry.filename!r}, which is a link. It was not unpacked.")
            inside = _checked_path(archive, entry.filename)
            with packed.open(entry) as content:
                yield inside, content


def _tar_members(archive: Path) -> Members:
    with open_unpacked(archive) as file, tarfile.open(fileobj=file, mode="r:") as packed:
        files = 0
        for member in packed:
            if member.isdir():
                continue
            files += 1
            check_unpacked(archive, _BLOCK * files)
            content = packed.extractfile(member) if member.isreg() else None
            if content is None:
                raise DataError(f"{archive} holds {member.name!r}, which is a link or a device. It was not unpacked.")
            with content:
                yield _checked_path(archive, member.name), content
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


def _checked_path(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if not path.parts or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise DataError(f"{archive} holds {name!r}, which would be written outside its folder. It was not unpacked.")
    return path
