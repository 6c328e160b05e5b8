"""Labelled images in one form, whatever they were read from."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from lila.augment.noise import Draw
from lila.errors import ArgumentError, DataError

GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B", "F"}
_FIRST_TURNED = 5  # orientations from here on swap height and width
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}


@dataclass(frozen=True)
class ImageFiles:
    """Images that stay in their files until they are asked for.

    Attributes:
        paths: one per image.
        channels: 1 for grey, 3 for colour; each image is converted to it.
        size: (height, width) to which each is resized, or which each must have if `resize` is false.
        resize: whether images of another size are resized.
    """

    paths: tuple[Path, ...]
    channels: int
    size: tuple[int, int]
    resize: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(n, c, h, w)."""
        return len(self.paths), self.channels, *self.size

    def __getitem__(self, index: Tensor) -> Tensor:
        """The images with these indices, decoded: uint8, shape (b, c, h, w)."""
        chosen = [self.paths[i] for i in index.tolist()]
        return torch.stack([read_image(path, self.channels, self.size, self.resize) for path in chosen])


@dataclass(frozen=True)
class ImageSet:
    """Labelled images.

    Attributes:
        pixels: shape (n, c, h, w), as uint8, or as real numbers in [0, 1]; in memory or in files.
        labels: classes by number, shape (n,).
    """

    pixels: Tensor | ImageFiles
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def images(self, index: Tensor) -> Tensor:
        """The images with these indices, in [0, 1] and float32."""
        pixels = self.pixels[index]
        return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels.float()

    def take(self, index: Tensor) -> "ImageSet":
        """Those with these indices, without decoding any."""
        pixels = self.pixels
        if isinstance(pixels, ImageFiles):
            return ImageSet(replace(pixels, paths=tuple(pixels.paths[i] for i in index.tolist())), self.labels[index])
        return ImageSet(pixels[index], self.labels[index])

    def in_memory(self) -> "ImageSet":
        """The same with all images decoded."""
        if isinstance(self.pixels, Tensor):
            return self
        return replace(self, pixels=self.pixels[torch.arange(len(self))])


@dataclass(frozen=True)
class ImageData:
    """A data set as it was read, before any subset, transformation or scaling.

    Attributes:
        train: the training images.
        test: the test images.
        classes: their names, by number.
    """

    train: ImageSet
    test: ImageSet
    classes: tuple[str, ...]


def split(whole: ImageSet, classes: Sequence[str], share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Part images into training and test: a random share of each class for the latter, but neither all nor none.

    Args:
        whole: all images.
        classes: the names of the classes.
        share: for test.
        seed: of the choice.
    """
    if not 0 < share < 1:
        raise ArgumentError(f"The share of the images kept for test must lie between 0 and 1, but is {share}.")
    chosen = torch.zeros(len(whole), dtype=torch.bool)
    for number, name in enumerate(classes):
        of_class = torch.nonzero(whole.labels == number)[:, 0]
        if len(of_class) < 2:
            raise DataError(
                f"Class {name!r} has {len(of_class)} image(s), too few to split into training and test. Add images, or "
                "part them yourself (folders train/ and test/, or arrays x_train and x_test)."
            )
        count = min(max(round(share * len(of_class)), 1), len(of_class) - 1)
        chosen[of_class[Draw(seed, number).subset(len(of_class), count)]] = True
    return whole.take(torch.nonzero(~chosen)[:, 0]), whole.take(torch.nonzero(chosen)[:, 0])


def read_image(path: Path, channels: int, size: tuple[int, int], resize: bool) -> Tensor:
    """Decode an image file to uint8, shape (channels, height, width).

    Args:
        path: PNG, JPEG, or another format that Pillow reads.
        channels: 1 for grey, 3 for colour.
        size: the height and width to have.
        resize: whether to resize an image of another size; an error otherwise.
    """
    height, width = size
    with _opened(path) as image:
        try:
            upright = ImageOps.exif_transpose(image) if _orientation(image) > 1 else image
            upright.load()
        except (OSError, SyntaxError, ValueError, struct.error) as error:  # what Pillow raises for broken files
            raise DataError(f"{path} is damaged: {error}. Replace or remove it.") from error
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
    """What the headers of image files say: 1 or 3 channels, and for each size (height, width) a file that has it."""
    grey, sizes = True, dict[tuple[int, int], Path]()
    for path in paths:
        with _opened(path) as image:
            grey = grey and _is_grey(image)
            sides = (image.height, image.width)
            sizes.setdefault(sides[::-1] if _orientation(image) >= _FIRST_TURNED else sides, path)
    return 1 if grey else 3, sizes


def image_paths(folder: Path) -> list[Path]:
    """The image files in a folder and in those below it, in the order of their names; hidden ones are left out."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation of a photograph; 1 is upright. Other formats would have to be decoded to know."""
    return int(image.getexif().get(ExifTags.Base.Orientation, 1)) if image.format in ("JPEG", "MPO") else 1


def _is_grey(image: Image.Image) -> bool:
    if image.mode != "P":
        return image.mode in GREY_MODES
    palette = np.array(image.getpalette("RGB") or []).reshape(-1, 3)
    return bool((palette == palette[:, :1]).all())


def _opened(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        raise DataError(f"{path} is not an image, whatever its name says. Replace or remove it.") from None
    except (OSError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _eight_bits(path: Path, image: Image.Image) -> Image.Image:
    """Grey of 16 bits brought to 8, which Pillow's own conversion would clip; transparency put on black."""
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
