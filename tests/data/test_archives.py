import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest

from lila.data.formats.archives import is_archive, unpack
from lila.errors import DataError

FILES = {
    "top.txt": b"at the top",
    "photos/cat/1.png": b"first",
    "photos/cat/2.png": bytes(range(256)) * 40,
    "photos/empty.txt": b"",
}
KINDS = ["data.tar", "data.tar.gz", "data.tgz", "data.zip", "DATA.TAR.GZ", "DATA.ZIP"]


def tar_bytes(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        folder = tarfile.TarInfo("photos")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_bytes(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("photos/", b"")
        for name, content in files.items():
            file.writestr(name, content)
    return packed.getvalue()


def packed(path: Path, files: dict[str, bytes]) -> Path:
    name = path.name.lower()
    if name.endswith(".zip"):
        path.write_bytes(zip_bytes(files))
    else:
        path.write_bytes(tar_bytes(files) if name.endswith(".tar") else gzip.compress(tar_bytes(files)))
    return path


def unpacked(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(archive: Path, message: str | None = None) -> None:
    """It is refused with its name, and of the archive nothing else is left than itself."""
    before = sorted(archive.parent.parent.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        unpack(archive, archive.parent / "target")
    assert str(archive) in str(caught.value)
    assert sorted(archive.parent.parent.rglob("*")) == before


def inner(tmp_path: Path) -> Path:
    """A folder with one above it that the test owns too."""
    folder = tmp_path / "inner"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_what_was_packed_is_unpacked(tmp_path: Path, name: str) -> None:
    archive = packed(tmp_path / name, FILES)
    assert is_archive(archive)
    unpack(archive, tmp_path / "new" / "target")
    assert unpacked(tmp_path / "new" / "target") == FILES
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["target"]


@pytest.mark.parametrize("name", ["data.npz", "data.gz", "tar", "zip", "data.tar.xz", "data"])
def test_other_names_are_not_those_of_archives(name: str) -> None:
    assert not is_archive(Path(name))


@pytest.mark.parametrize("kind", ["data.tar", "data.tar.gz", "data.zip"])
@pytest.mark.parametrize(
    "member", ["../x", "a/../../x", "photos/../x", "/x", "//x", "..\\x", "\\x", "C:/x", "C:\\x", "C:x", ".."]
)
def test_members_that_climb_out_are_refused_and_named(tmp_path: Path, member: str, kind: str) -> None:
    archive = packed(inner(tmp_path) / kind, {"before.txt": b"fine", member: b"evil", "after.txt": b"fine"})
    refused(archive, "outside its folder")


@pytest.mark.parametrize("kind", ["data.tar", "data.tar.gz", "data.zip"])
@pytest.mark.parametrize("evil", ["../x", "before.txt/inside"])
def test_an_archive_that_was_refused_is_not_held_open(tmp_path: Path, evil: str, kind: str) -> None:
    archive = packed(tmp_path / kind, {"before.txt": b"fine", evil: b"evil", "after.txt": b"fine"})
    with pytest.raises(DataError) as caught:
        unpack(archive, tmp_path / "target")
    assert caught.tb is not None
    assert str(archive) not in [file.path for file in psutil.Process().open_files()]


@pytest.mark.parametrize("kind", ["data.tar", "data.zip"])
@pytest.mark.parametrize("member", [".", "./."])
def test_a_member_without_a_name_is_refused(tmp_path: Path, member: str, kind: str) -> None:
    refused(packed(inner(tmp_path) / kind, {"before.txt": b"fine", member: b"evil"}))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused_and_named(tmp_path: Path, kind: bytes) -> None:
    archive = inner(tmp_path) / "data.tar"
    with tarfile.open(archive, "w") as tar:
        first = tarfile.TarInfo("before.txt")
        tar.addfile(first, io.BytesIO())
        link = tarfile.TarInfo("odd")
        link.type, link.linkname = kind, "before.txt"
        tar.addfile(link)
    refused(archive, "'odd'.*link or a device")


def test_symbolic_links_in_a_zip_are_refused_and_named(tmp_path: Path) -> None:
    archive = inner(tmp_path) / "data.zip"
    with zipfile.ZipFile(archive, "w") as file:
        link = zipfile.ZipInfo("odd")
        link.create_system = 3
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    refused(archive, "'odd'")


@pytest.mark.parametrize("kind", ["data.tar", "data.zip"])
def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path, kind: str) -> None:
    refused(packed(inner(tmp_path) / kind, {"a": b"file", "a/b": b"inside of it"}), "cannot be unpacked")


@pytest.mark.parametrize("kind", ["data.tar", "data.tar.gz", "data.zip"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6])
def test_truncated_archives_are_refused(tmp_path: Path, share: float, kind: str) -> None:
    noise = np.random.default_rng(0).bytes(40_000)
    archive = packed(inner(tmp_path) / kind, FILES | {"noise": noise})
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    refused(archive, "(?s)cannot be unpacked.*Get the file again")


def test_a_tar_that_ends_between_two_members_is_refused(tmp_path: Path) -> None:
    archive = inner(tmp_path) / "data.tar"
    content = tar_bytes({"one": b"first", "two": b"second"})
    archive.write_bytes(content[: content.index(b"two\0")])
    refused(archive)


@pytest.mark.parametrize("kind", ["data.tar", "data.tar.gz"])
def test_a_tar_with_a_wrong_byte_in_a_header_is_refused_and_not_cut_there(tmp_path: Path, kind: str) -> None:
    content = bytearray(tar_bytes({"one": b"first", "two": b"second"}))
    content[content.index(b"two\0")] ^= 1
    archive = inner(tmp_path) / kind
    archive.write_bytes(gzip.compress(content, mtime=0) if kind.endswith("gz") else content)
    refused(archive)


def test_a_gzipped_tar_with_a_wrong_byte_in_a_file_is_found_by_its_checksum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(tar_bytes({"one": b"first", "two": b"second"}), compresslevel=0))
    content[content.index(b"second")] ^= 1
    archive = inner(tmp_path) / "data.tar.gz"
    archive.write_bytes(content)
    refused(archive, "cannot be unpacked")


def test_a_zip_with_a_wrong_byte_is_refused(tmp_path: Path) -> None:
    archive = packed(inner(tmp_path) / "data.zip", {"noise": np.random.default_rng(0).bytes(5000)})
    content = bytearray(archive.read_bytes())
    content[2500] ^= 0xFF
    archive.write_bytes(content)
    refused(archive, "cannot be unpacked")


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 9)])
def test_a_zip_that_is_encrypted_or_packed_in_an_unknown_way_is_refused(tmp_path: Path, place: int, value: int) -> None:
    archive = packed(inner(tmp_path) / "data.zip", {"only.txt": b"secret" * 10})
    content = bytearray(archive.read_bytes())
    for header, offset in ((b"PK\x03\x04", place), (b"PK\x01\x02", place + 2)):  # of the member, and of the directory
        content[content.rindex(header) + offset] = value
    archive.write_bytes(content)
    refused(archive)


@pytest.mark.parametrize("kind", ["data.tar", "data.tar.gz", "data.zip"])
def test_what_is_no_archive_and_what_is_missing_are_refused(tmp_path: Path, kind: str) -> None:
    archive = inner(tmp_path) / kind
    refused(archive, "cannot be unpacked")
    archive.write_text("<html>not found</html>")
    refused(archive, "cannot be unpacked")


def test_a_target_that_somebody_else_has_made_stays_theirs(tmp_path: Path) -> None:
    archive = packed(tmp_path / "data.zip", FILES)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "theirs").write_text("theirs")
    unpack(archive, tmp_path / "target")
    assert unpacked(tmp_path / "target") == {"theirs": b"theirs"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.zip", "target"]
