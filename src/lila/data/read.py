"""Reading a data set by its name or its path, in whatever format it is stored."""

from pathlib import Path

from lila._util.choices import check_instance
from lila._util.suggestions import did_you_mean
from lila.data import digits
from lila.data.formats import Reading, recognise
from lila.data.images import SERIES_DIMENSIONS, ImageData
from lila.data.sources import KNOWN, data_folder, find
from lila.errors import ArgumentError, DataError


def known_names() -> tuple[str, ...]:
    """Return the names of the data sets that are known by name."""
    return (digits.NAME, *KNOWN)


def read(source: str, data_dir: Path | None = None, reading: Reading | None = None) -> ImageData:
    """Read a data set.

    Args:
        source: a name that `lila data list` shows, which goes before a path of that name, or a path to a file or folder
            in one of the registered formats.
        data_dir: the folder with the data sets that are known by name; that of LILA_DATA or the user's own if None.
        reading: the choices that the files leave open.
    """
    reading = reading or Reading()
    data = digits.read_digits(reading.seed) if source == digits.NAME else _read_path(_find(source, data_dir), reading)
    if reading.size is not None and data.train.shape[1:] != reading.size:
        of_series = len(data.train.shape) == SERIES_DIMENSIONS
        what = "time series" if of_series else f"{data.train.shape[1]} x {data.train.shape[2]} pixels in other files"
        raise ArgumentError(
            f"Only images in folders are resized, but {source} holds {what}. Leave the size out, or resize the arrays "
            "yourself."
        )
    return data


def _find(source: str, data_dir: Path | None) -> Path:
    """Return the path of a data set."""
    if source in KNOWN:
        found = find(KNOWN[source], data_dir)
        if found is None:
            raise DataError(
                f"{source} is not in {data_folder(data_dir)}. Get it with `lila data get {source}`, or say where it is "
                "with --data-dir or the variable LILA_DATA."
            )
        return found
    path = Path(source)
    if not path.exists():
        known = known_names()
        raise DataError(
            f"There is no data set {source!r}: it is neither a path nor one of {', '.join(known)}."
            f"{did_you_mean(source, known)}"
        )
    return path


def _read_path(path: Path, reading: Reading) -> ImageData:
    format_ = recognise(path)
    data = format_.read(path, reading)
    check_instance(data, ImageData, f"What the data format {format_.name!r} reads from {path}")
    data.check(path)
    return data
