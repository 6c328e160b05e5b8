"""What a format of stored images is, and the register of all formats.

To add a format, subclass `Format` and register an object of the class. Formats are asked in turn whether they recognise
a path, the one that was registered last first, and the first that does so reads it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from lila._util.arguments import suggests_arguments
from lila._util.choices import check_instance, check_name
from lila.data.images import ImageData, ImageSet, split
from lila.errors import ArgumentError, DataError


@suggests_arguments
@dataclass(frozen=True)
class Reading:
    """The choices that the files of a data set leave open.

    Attributes:
        size: the (height, width) to which the images of a folder are resized; None if all have the same size.
        test_share: the share of the images that is kept for test, if they are not divided into training and test; 0
            for none.
        seed: the seed of that division.
        archives: the number of archives that were opened to get to the files.
    """

    size: tuple[int, int] | None = None
    test_share: float = 0.2
    seed: int = 0
    archives: int = 0

    def split(self, whole: ImageSet, classes: Sequence[str]) -> ImageData:
        """Divide images into training and test images: of each class a random share is kept for test, or nothing."""
        if self.test_share == 0:
            return ImageData(whole, whole.take(torch.zeros(0, dtype=torch.int64)), tuple(classes), tested=False)
        return ImageData(*split(whole, classes, self.test_share, self.seed), tuple(classes))


class Format(ABC):
    """A format in which labelled images are stored.

    Attributes:
        name: a short name, different from that of every other format.
        title: a few words that describe the format, for lists and error messages.
    """

    name: str
    title: str

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Return whether a file or folder looks like this format. The path exists; its content need not be valid."""

    @abstractmethod
    def read(self, path: Path, reading: Reading) -> ImageData:
        """Read a file or folder that this format recognises.

        Raises:
            DataError: the content is not valid. The message names the file, and says what is wrong and what to do.
        """


_FORMATS: dict[str, Format] = {}


def register_format(format_: Format) -> None:
    """Make a format known, so that `lila.load_data` and the command line read what it recognises.

    Args:
        format_: the format. It is asked before all formats that are already known.

    Raises:
        ArgumentError: it is no format, has no name, or another format has the same name.
    """
    check_instance(format_, Format, "A data format")
    check_name(getattr(format_, "name", None), "a data format")
    if format_.name in _FORMATS:
        raise ArgumentError(f"There is already a data format named {format_.name!r}; choose another name.")
    _FORMATS[format_.name] = format_


def formats() -> tuple[Format, ...]:
    """Return all formats, in the order in which they were registered."""
    return tuple(_FORMATS.values())


def recognise(path: Path) -> Format:
    """Return the format of a file or folder.

    Raises:
        DataError: no format recognises the path, or it is neither a regular file nor a folder.
    """
    if not path.is_file() and not path.is_dir():
        raise DataError(f"{path} cannot be read: it is neither a regular file nor a folder.")
    found = next((format_ for format_ in reversed(formats()) if format_.recognises(path)), None)
    if found is None:
        titles = ", ".join(format_.title for format_ in formats())
        raise DataError(f"{path} is not a data set that can be read. These can be: {titles}.")
    return found
