"""`.ts` files of time series, the format of the UCR and UEA archives.

A header of lines `@name value` ends with `@data`. Each further line is an example: its channels, with colons between
them, each a list of numbers with commas between them, and after the last colon the name of its class. Lines that begin
with # are comments. Series must be of one length, without time stamps and without missing values.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lila.data.formats.format import Format, Reading
from lila.data.images import ImageData, ImageSet
from lila.data.unpacking import check_memory, decoding, read_unpacked
from lila.errors import DataError

_SUFFIX = ".ts"
_PARTS = ("_TRAIN", "_TEST")


class TsFiles(Format):
    """A `.ts` file of labelled time series, or a folder with a pair NAME_TRAIN.ts and NAME_TEST.ts."""

    name = "ts"
    title = "time series in .ts files (a single file, or a pair NAME_TRAIN.ts and NAME_TEST.ts)"

    def recognises(self, path: Path) -> bool:
        return path.suffix == _SUFFIX if path.is_file() else any(path.glob(f"*{_PARTS[0]}{_SUFFIX}"))

    def read(self, path: Path, reading: Reading) -> ImageData:
        found = _find(path)
        parts = [_read_file(file) for file in found]
        classes = parts[0].classes
        sets = [_image_set(file, part, classes) for file, part in zip(found, parts, strict=True)]
        if len(sets) == 1:
            return reading.split(sets[0], classes)
        train, test = sets
        if train.shape != test.shape:
            raise DataError(f"{path}: training series are {train.shape} but test series {test.shape}.")
        return ImageData(train, test, classes)


@dataclass(frozen=True)
class _File:
    """What a file holds.

    Attributes:
        classes: the names of the classes, in the order of the header.
        series: the numbers, shape (n, c, t).
        labels: the name of the class of each series.
    """

    classes: tuple[str, ...]
    series: np.ndarray
    labels: tuple[str, ...]


def _find(path: Path) -> list[Path]:
    """Return one file that is to be split, or the training and the test file."""
    if path.is_dir():
        pairs = sorted(path.glob(f"*{_PARTS[0]}{_SUFFIX}"))
        if len(pairs) != 1:
            raise DataError(
                f"{path} holds {len(pairs)} training sets: {', '.join(file.name for file in pairs)}. Name one of them."
            )
        path = pairs[0]
    if not path.stem.endswith(_PARTS[0]):
        return [path]
    test = path.with_name(path.stem.removesuffix(_PARTS[0]) + _PARTS[1] + _SUFFIX)
    return [path, test] if test.exists() else [path]


def _read_file(path: Path) -> _File:
    check_memory(path, path.stat().st_size)
    with decoding(f"{path} cannot be read as a .ts file"):
        lines = read_unpacked(path).decode().splitlines()
    header: dict[str, list[str]] = {}
    start = None
    for number, line in enumerate(lines):
        words = line.split()
        if words and words[0].lower() == "@data":
            start = number + 1
            break
        if line.startswith("@"):
            header[words[0].lower()] = words[1:]
    if start is None:
        raise DataError(f"{path} is not a .ts file of time series: it has no line @data.")
    labelled = header.get("@classlabel", ["false"])
    if labelled[0].lower() != "true" or len(set(labelled)) != len(labelled):
        raise DataError(f"{path} must name different classes in its header: @classLabel true CLASS CLASS ...")
    if header.get("@timestamps", ["false"])[0].lower() == "true":
        raise DataError(f"{path} holds series with time stamps. Resample them to equal steps of time, without stamps.")
    examples = [(number + 1, line) for number, line in enumerate(lines[start:], start) if line.strip()]
    read = [_example(path, number, line) for number, line in examples if not line.startswith("#")]
    if not read:
        raise DataError(f"{path} holds no series after the line @data.")
    return _File(tuple(labelled[1:]), _stacked(path, [channels for channels, _ in read]), tuple(c for _, c in read))


def _example(path: Path, number: int, line: str) -> tuple[list[np.ndarray], str]:
    """Return the channels of an example, and the name of its class."""
    *channels, label = line.split(":")
    try:
        return [np.array(channel.split(","), dtype=np.float32) for channel in channels], label.strip()
    except ValueError as error:
        advice = "Fill in missing values (?)." if "?" in line else "Numbers have commas between them."
        raise DataError(f"{path}, line {number}, cannot be read: {error}. {advice}") from error


def _stacked(path: Path, examples: list[list[np.ndarray]]) -> np.ndarray:
    """Return series of one shape as an array (n, c, t)."""
    sizes = {tuple(len(channel) for channel in channels) for channels in examples}
    lengths = {length for size in sizes for length in size}
    if len(sizes) != 1 or len(lengths) != 1:
        raise DataError(
            f"{path} must hold series of one length and one number of channels, but there are {len(sizes)} kinds, "
            f"{min(lengths, default=0)} to {max(lengths, default=0)} values long. Pad, cut or resample them."
        )
    return np.array(examples)


def _image_set(path: Path, file: _File, classes: tuple[str, ...]) -> ImageSet:
    numbers = {name: i for i, name in enumerate(classes)}
    unknown = next((label for label in file.labels if label not in numbers), None)
    if unknown is not None:
        raise DataError(f"{path} holds a series of class {unknown!r}, but its header names {', '.join(classes)}.")
    labels = torch.tensor([numbers[label] for label in file.labels])
    return ImageSet(torch.from_numpy(file.series), labels, of_series=True)
