"""Labelled images and time series in one form, whatever they were read from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila.augment.noise import Draw
from lila.data.image_files import ImageFiles
from lila.errors import ArgumentError, DataError

SERIES_DIMENSIONS = 2
"""The dimensions of one time series, (channels, time); an image has one more."""


@suggests_arguments
@dataclass(frozen=True)
class ImageSet:
    """Labelled images, or labelled time series.

    Attributes:
        pixels: the images, of shape (n, c, h, w), as uint8 or as real numbers in [0, 1]; in memory or in files. Time
            series have the shape (n, c, t), and are any real numbers.
        labels: the number of the class of each image, shape (n,), int64.
        of_series: whether these are time series.
    """

    pixels: Tensor | ImageFiles
    labels: Tensor
    of_series: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The (channels, height, width) of an image, or the (channels, time) of a series."""
        return tuple(self.pixels.shape[1:])

    def images(self, index: Tensor) -> Tensor:
        """Return the images with these indices, in [0, 1] and float32, or the series as they are."""
        pixels = self.pixels[index]
        return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels.float()

    def take(self, index: Tensor) -> "ImageSet":
        """Return the set of the images with these indices, without decoding any."""
        pixels = self.pixels
        if isinstance(pixels, ImageFiles):
            return ImageSet(replace(pixels, paths=tuple(pixels.paths[i] for i in index.tolist())), self.labels[index])
        return ImageSet(pixels[index], self.labels[index], self.of_series)


@suggests_arguments
@dataclass(frozen=True)
class ImageData:
    """A data set as it was read, before any subset, transformation or scaling.

    Attributes:
        train: the training images.
        test: the test images.
        classes: the names of the classes, by number.
        tested: whether there are test images; False if all images are for training, and `test` is empty.
    """

    train: ImageSet
    test: ImageSet
    classes: tuple[str, ...]
    tested: bool = True

    def check(self, path: Path) -> None:
        """Raise DataError, with the path that was read, unless the data can be trained on.

        This is the last check of data in any format: the numbers and shapes of images and labels fit together, and
        pixels and labels lie in their ranges.
        """
        if len(self.classes) < 2:
            raise DataError(f"{path} holds a single class. At least two are needed.")
        for name, part in (("training", self.train), ("test", self.test)):
            if part is self.train or self.tested:
                _check_set(f"{path}: the {name}", part, len(self.classes))
        if self.train.shape != self.test.shape:
            raise DataError(f"{path}: training images are {self.train.shape} but test images {self.test.shape}.")


def split(whole: ImageSet, classes: Sequence[str], share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Divide images into training and test: a random share of each class for test, but neither all nor none.

    Args:
        whole: all images.
        classes: the names of the classes.
        share: the share for test.
        seed: the seed of the random choice.
    """
    if not 0 < share < 1:
        raise ArgumentError(f"The share of the images kept for test must lie between 0 and 1, but is {share}.")
    chosen = torch.zeros(len(whole), dtype=torch.bool)
    for number, name in enumerate(classes):
        of_class = torch.nonzero(whole.labels == number)[:, 0]
        if len(of_class) < 2:
            raise DataError(
                f"Class {name!r} has {len(of_class)} image(s), too few to split into training and test. Add images, or "
                "divide them yourself (folders train/ and test/, or arrays x_train and x_test)."
            )
        count = min(max(round(share * len(of_class)), 1), len(of_class) - 1)
        chosen[of_class[Draw(seed, number).subset(len(of_class), count)]] = True
    return whole.take(torch.nonzero(~chosen)[:, 0]), whole.take(torch.nonzero(chosen)[:, 0])


def numbered_classes(path: Path, train: Tensor, test: Tensor | None = None) -> tuple[str, ...]:
    """Return the names "0", "1", ... of classes that are known by number only.

    Args:
        path: the path that was read, for the error message.
        train: the labels of the training images, or of all images if they are to be split.
        test: the labels of the test images.

    Raises:
        DataError: there is a single class, or a class has no training image. A wrong label would otherwise make as many
            classes as its value.
    """
    largest = max(int(labels.max()) for labels in (train, test) if labels is not None)
    if largest < 1:
        raise DataError(f"{path} holds a single class; there is nothing to tell apart.")
    present = train.unique()
    if len(present) <= largest:
        missing = next((i for i, label in enumerate(present.tolist()) if label != i), len(present))
        raise DataError(
            f"{path}: class {missing} of {largest + 1} has no training image. Number the classes without gaps."
        )
    return tuple(map(str, range(largest + 1)))


def _check_set(what: str, images: ImageSet, classes: int) -> None:
    shape, pixels, labels = tuple(images.pixels.shape), images.pixels, images.labels
    kind, sides = ("series", ("channels", "time")) if images.of_series else ("images", ("channels", "height", "width"))
    if len(shape) != 1 + len(sides) or min(shape) < 1:
        raise DataError(
            f"{what} {kind} have shape {shape} (number, {', '.join(sides)}), but each of these must be at least 1."
        )
    if labels.shape != shape[:1] or labels.dtype != torch.int64:
        raise DataError(
            f"{what} labels must be {shape[0]} numbers of type int64, one for each image, but are {labels.dtype} of "
            f"shape {tuple(labels.shape)}."
        )
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise DataError(
            f"{what} labels range from {int(labels.min())} to {int(labels.max())}, but there are {classes} classes: "
            f"they must lie between 0 and {classes - 1}."
        )
    if isinstance(pixels, ImageFiles) or pixels.dtype == torch.uint8:
        return
    if images.of_series:
        if not pixels.is_floating_point():
            raise DataError(f"{what} series must be real numbers, but are {pixels.dtype}.")
        if not pixels.isfinite().all():
            raise DataError(f"{what} series must be finite, but some values are NaN or infinite in float32.")
        return
    if not pixels.is_floating_point() or not (pixels.min() >= 0 and pixels.max() <= 1):  # false for NaN too
        raise DataError(f"{what} images must be uint8, or real numbers in [0, 1], but are other {pixels.dtype}.")
