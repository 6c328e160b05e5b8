"""A data set made ready for training: read, reduced to a subset, transformed, and scaled."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lila._util.arguments import suggests_arguments
from lila._util.choices import check_count, choose
from lila._util.memory import available_bytes
from lila.augment.noise import Draw
from lila.data.examples import Data
from lila.data.formats import Reading
from lila.data.images import SERIES_DIMENSIONS, ImageData, ImageSet
from lila.data.read import read
from lila.data.transformed import VersionName, transformed
from lila.errors import ArgumentError

_CHUNK = 100
_SCALED_BY = 5000  # the most training images from which means and deviations are computed
_SHARE = 0.25  # the share of the free memory up to which a data set is held in memory


class ScalingName(StrEnum):
    """The ways to scale pixels."""

    AUTO = "auto"
    """Grey images to [0, 1], colour images standardised, which is what the paper does for its data sets; time series
    standardised."""
    UNIT = "unit"
    """To [0, 1]; time series stay as they are."""
    STANDARD = "standard"
    """To mean 0 and variance 1 per channel, over the training images."""


@dataclass(frozen=True)
class Scaling:
    """The scaling x' = (x - mean) / std of each channel.

    Attributes:
        mean: the mean of each channel.
        std: the standard deviation of each channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """Scale images (b, c, h, w), or series (b, c, t)."""
        mean, std = self._of(images)
        return (images - mean) / std

    def undo(self, images: Tensor) -> Tensor:
        """Take scaled images back to [0, 1]."""
        mean, std = self._of(images)
        return images * std + mean

    def _of(self, images: Tensor) -> tuple[Tensor, Tensor]:
        shape = (-1, *(1 for _ in images.shape[2:]))
        return images.new_tensor(self.mean).view(shape), images.new_tensor(self.std).view(shape)


@suggests_arguments
@dataclass(frozen=True)
class Recipe:
    """All choices that make a task out of a data set.

    Attributes:
        source: a name or a path, as `lila.data.read.read` takes it.
        transform: which transformed version: "original", "partially-rotated", "fully-rotated", "translated", "scaled"
            or "independently-scaled".
        subset: this many random training images; all if None.
        size: (height, width) to which the images of a folder are resized; None if all have the same.
        test_share: share of the images that is kept for test, if they are not divided into training and test; 0 trains
            on all of them, and there are no test scores.
        scaling: "auto", "unit" or "standard".
        seed: seed of the split, the subset and the transformation.
    """

    source: str
    transform: str = "original"
    subset: int | None = None
    size: tuple[int, int] | None = None
    _: KW_ONLY
    test_share: float = 0.2
    scaling: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        choose(VersionName, self.transform, "transformed version")
        choose(ScalingName, self.scaling, "scaling")
        check_count("subset", self.subset, optional=True)
        for side in self.size or ():
            check_count("size", side)


@dataclass(frozen=True)
class Task:
    """Data made ready for `lila.fit`.

    Attributes:
        recipe: the choices by which the data was made ready.
        train: the training data.
        test: the test data; None if there is none.
        shape: (channels, height, width) of an image, or (channels, time) of a series.
        classes: names of the classes, by number.
        scaling: the scaling of the pixels.
        examples: the numbers of training and test images.
    """

    recipe: Recipe
    train: Data
    test: Data | None
    shape: tuple[int, ...]
    _: KW_ONLY
    classes: tuple[str, ...]
    scaling: Scaling
    examples: tuple[int, int]


def load_data(
    recipe: Recipe, data_dir: str | Path | None = None, in_memory: bool | None = None, workers: int = 0
) -> Task:
    """Read a data set and make it ready for training.

    Args:
        recipe: the data set, and how it is made ready.
        data_dir: the folder with the data sets that are known by name; that of LILA_DATA or the user's own if None.
        in_memory: whether to hold all images in memory, or to read them from their files in each pass; None decides by
            their size. It does not change the result.
        workers: the number of processes that read images, if they are not in memory.
    """
    return prepare(read_source(recipe, None if data_dir is None else Path(data_dir)), recipe, in_memory, workers)


def read_source(recipe: Recipe, data_dir: Path | None = None) -> ImageData:
    """Read the data set of a recipe."""
    return read(recipe.source, data_dir, Reading(recipe.size, recipe.test_share, recipe.seed))


def prepare(data: ImageData, recipe: Recipe, in_memory: bool | None = None, workers: int = 0) -> Task:
    """Make data that was read ready for training; see `load_data`."""
    chosen = torch.arange(len(data.train))
    if len(data.train.shape) == SERIES_DIMENSIONS and recipe.transform != VersionName.ORIGINAL:
        raise ArgumentError(
            f"The version {recipe.transform!r} moves pixels of images, but {recipe.source} holds time series. Leave "
            "the transformed version out."
        )
    if recipe.subset is not None:
        if recipe.subset > len(chosen):
            raise ArgumentError(
                f"A subset of {recipe.subset} training images was asked for, but there are {len(chosen)}."
            )
        chosen = Draw(recipe.seed).subset(len(chosen), recipe.subset)
    scaling = _scaling(recipe, data.train, chosen)
    train = PreparedImages(data.train.take(chosen), chosen, recipe, part=0, scaling=scaling)
    test = None
    if data.tested:
        test = PreparedImages(data.test, torch.arange(len(data.test)), recipe, part=1, scaling=scaling)
    counts = len(train), 0 if test is None else len(test)
    if in_memory is None:
        in_memory = 4 * sum(counts) * prod(data.train.shape) < _SHARE * available_bytes(torch.device("cpu"))

    def ready(part: PreparedImages) -> Data:
        return part.tensors() if in_memory else DataLoader(part, batch_size=1, num_workers=workers)

    tested = None if test is None else ready(test)
    return Task(recipe, ready(train), tested, data.train.shape, classes=data.classes, scaling=scaling, examples=counts)


class PreparedImages(Dataset[tuple[Tensor, Tensor]]):
    """Images that are transformed and scaled when they are needed, in the same way each time.

    Args:
        images: the images as they were read.
        index: the index of each image in the whole data set, which determines how it is transformed.
        recipe: the recipe, which names the transformation and the seed.
        part: 0 for training, 1 for test.
        scaling: the scaling of the pixels.
    """

    def __init__(self, images: ImageSet, index: Tensor, recipe: Recipe, *, part: int, scaling: Scaling) -> None:
        self.images, self.index, self.recipe, self.part, self.scaling = images, index, recipe, part, scaling

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self._batch(torch.tensor([i]))[0], self.images.labels[i]

    @property
    def targets(self) -> Tensor:
        """The class of each image, as torchvision's datasets give it."""
        return self.images.labels

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Return all images and labels."""
        chunks = torch.arange(len(self)).split(_CHUNK)
        return torch.cat([self._batch(chunk) for chunk in chunks]), self.images.labels

    def _batch(self, i: Tensor) -> Tensor:
        recipe = self.recipe
        moved = transformed(self.images.images(i), self.index[i], recipe.transform, recipe.seed, self.part)
        return self.scaling(moved)


def _scaling(recipe: Recipe, images: ImageSet, chosen: Tensor) -> Scaling:
    channels = images.shape[0]
    name = choose(ScalingName, recipe.scaling, "scaling")
    is_grey = channels == 1 and len(images.shape) != SERIES_DIMENSIONS
    if name is ScalingName.UNIT or (name is ScalingName.AUTO and is_grey):
        return Scaling((0.0,) * channels, (1.0,) * channels)
    some = chosen if len(chosen) <= _SCALED_BY else chosen[Draw(recipe.seed, 1).subset(len(chosen), _SCALED_BY)]
    moments = torch.zeros(2, channels, dtype=torch.float64)
    for chunk in some.split(_CHUNK):
        pixels = images.images(chunk).double().transpose(0, 1).flatten(1)  # (c, values)
        moments += torch.stack([pixels.mean(1), pixels.square().mean(1)]) * len(chunk) / len(some)
    mean, std = moments[0], (moments[1] - moments[0] ** 2).clamp(min=0).sqrt()
    return Scaling(tuple(mean.tolist()), tuple(std.where(std > 0, 1.0).tolist()))
