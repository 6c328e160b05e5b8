"""Image files: finding them, reading their headers, and decoding them when their pixels are needed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from lila.data.unpacking import check_unpacked, decoding, open_regular
from lila.errors import DataError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")  # for some others Pillow starts programs
_GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B", "F"}
_BYTES_PER_PIXEL = 4  # the most that Pillow needs
_FIRST_TURNED = 5  # orientations from here on swap height and width


@dataclass(frozen=True)
class ImageFiles:
    """Images that stay in their files until their pixels are needed.

    Attributes:
        paths: the path of each image.
        channels: 1 for grey, 3 for colour. Each image is converted to so many channels.
        size: the (height, width) to which each image is resized, or which each must have if `resize` is false.
        resize: whether images of another size are resized.
    """

    paths: tuple[Path, ...]
    channels: int
    size: tuple[int, int]
    resize: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape (n, c, h, w) that the images have as a tensor."""
        return len(self.paths), self.channels, *self.size

    def __getitem__(self, index: Tensor) -> Tensor:
        """Decode the images with these indices, as uint8 of shape (b, c, h, w)."""
        chosen = [self.paths[i] for i in index.tolist()]
        return torch.stack([read_image(path, self.channels, self.size, self.resize) for path in chosen])


def read_image(path: Path, channels: int, size: tuple[int, int], resize: bool) -> Tensor:
    """Decode an image file to uint8, shape (channels, height, width).

    Args:
        path: a PNG, JPEG, BMP, GIF, WebP or TIFF file.
        channels: 1 for grey, 3 for colour.
        size: the height and width that the result has.
        resize: whether an image of another size is resized. If false, it is an error.
    """
    height, width = size
    with _opened(path) as image, decoding(f"{path} is damaged", "Replace or remove it."):
        upright = ImageOps.exif_transpose(image) if _orientation(image) > 1 else image
        upright.load()
        converted = _eight_bits(path, upright).convert("L" if channels == 1 else "RGB")
    if converted.size != (width, height):
        if not resize:
            raise DataError(
                f"{path} is {converted.height} x {converted.width} pixels, but {height} x {width} are wanted. Resize "
                "it, or ask for resizing (`lila train --size`, `lila predict --resize`)."
            )
        converted = converted.resize((width, height), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(converted)).reshape(height, width, channels).permute(2, 0, 1)


def look_at_images(paths: Sequence[Path]) -> tuple[int, dict[tuple[int, int], Path]]:
    """Read the headers of image files.

    Returns:
        The number of channels, 1 if all images are grey and 3 otherwise, and a file for each size (height, width) that
        occurs.
    """
    grey, sizes = True, dict[tuple[int, int], Path]()
    for path in paths:
        with _opened(path) as image, decoding(f"{path} is damaged", "Replace or remove it."):
            grey = grey and _is_grey(image)
            sides = (image.height, image.width)
            sizes.setdefault(sides[::-1] if _orientation(image) >= _FIRST_TURNED else sides, path)
    return 1 if grey else 3, sizes


def image_paths(folder: Path) -> list[Path]:
    """Return the image files in a folder and in its subfolders, sorted by path; hidden files are left out."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """An image of which only the header was read; one that would take more memory than may be unpacked is refused."""
    with decoding(f"{path} cannot be read"):
        file = open_regular(path)
    with file:
        try:
            with decoding(f"{path} cannot be read"):
                image = Image.open(file, formats=_FORMATS)  # type: ignore[arg-type]
        except DataError as error:
            if isinstance(error.__cause__, UnidentifiedImageError):
                known = path.suffix.lower() in SUFFIXES
                advice = "whatever its name says. Replace or remove it" if known else "as its content shows"
                raise DataError(f"{path} is not an image, {advice}.") from None
            raise
        with image:
            check_unpacked(path, image.width * image.height * _BYTES_PER_PIXEL)
            yield image


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of a photograph; 1 is upright. Other formats would have to be decoded to know."""
    return int(image.getexif().get(ExifTags.Base.Orientation, 1)) if image.format in ("JPEG", "MPO") else 1


def _is_grey(image: Image.Image) -> bool:
    if image.mode != "P":
        return image.mode in _GREY_MODES
    palette = np.array(image.getpalette("RGB") or []).reshape(-1, 3)
    return bool((palette == palette[:, :1]).all())


def _eight_bits(path: Path, image: Image.Image) -> Image.Image:
    """Bring grey of 16 bits to 8, which Pillow's own conversion would clip, and put what is transparent on black."""
    if image.mode in ("I", "F"):
        raise DataError(
            f"{path} has pixels of 32 bits, whose scale is not known. Convert it to 8 or 16 bits, or give the images "
            "as arrays (.npz)."
        )
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image, dtype=np.float64) / 257).round().astype(np.uint8))
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", opaque.size, (0, 0, 0, 255)), opaque)
    return image
