"""Labelled images in one form, whatever they were read from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from lila.errors import ArgumentError, DataError
from lila.noise import Draw

GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B", "F"}
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
    with _opened(path) as image:
        try:
            image.load()
        except (OSError, SyntaxError, ValueError) as error:  # SyntaxError is what Pillow raises for a broken PNG
            raise DataError(f"{path} is damaged: {error}. Replace or remove it.") from error
        height, width = size
        converted = _eight_bits(image).convert("L" if channels == 1 else "RGB")
    if converted.size != (width, height):
        if not resize:
            raise DataError(
                f"{path} is {converted.height} x {converted.width} pixels, but {height} x {width} are wanted. Give "
                "the size to which all images are to be resized (--size on the command line)."
            )
        converted = converted.resize((width, height), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(converted)).reshape(height, width, channels).permute(2, 0, 1)


def look_at_images(paths: Sequence[Path]) -> tuple[int, dict[tuple[int, int], Path]]:
    """What the headers of image files say: 1 or 3 channels, and for each size (height, width) a file that has it."""
    grey, sizes = True, dict[tuple[int, int], Path]()
    for path in paths:
        with _opened(path) as image:
            grey = grey and image.mode in GREY_MODES
            sizes.setdefault((image.height, image.width), path)
    return 1 if grey else 3, sizes


def _opened(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        raise DataError(f"{path} is not an image, whatever its name says. Replace or remove it.") from None
    except (OSError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey images of 16 bits brought to 8, which Pillow's own conversion would clip."""
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image, dtype=np.float64) / 257).clip(0, 255).round().astype(np.uint8))
