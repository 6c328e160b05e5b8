"""Transformed versions of an image data set, each a row of one table.

All but one are the paper's (appendix on training details); in the last one, the two scales are independent. A version
rotates, shifts or scales every image once, by a random amount that is a pure function of (seed, index). The range of
the amounts is known, so that one can see whether training recovers it. A version is a Lie-group augmentation with
ranges that are given instead of learned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import log, pi

import torch
from torch import Tensor

from lila._util.choices import choose
from lila.augment import AFFINE_2D, Generator, LieImages
from lila.augment.noise import Draw, Stream


class VersionName(StrEnum):
    """The names of the versions."""

    ORIGINAL = "original"
    PARTIALLY_ROTATED = "partially-rotated"
    FULLY_ROTATED = "fully-rotated"
    TRANSLATED = "translated"
    SCALED = "scaled"
    INDEPENDENTLY_SCALED = "independently-scaled"


@dataclass(frozen=True)
class Motion:
    """A random motion of an image along one direction of the Lie algebra.

    Attributes:
        names: the generators of `AFFINE_2D` that it moves along, all by the same amount.
        reach: the largest amount, in the generators' unit or in pixels.
        in_pixels: whether `reach` is in pixels.
    """

    names: tuple[str, ...]
    reach: float
    in_pixels: bool = False

    def range_(self, shape: tuple[int, ...]) -> float:
        """Return the reach in the generators' unit, which for a shift is half the longer side of the image."""
        return self.reach / (max(shape[-2:]) / 2) if self.in_pixels else self.reach

    def generator(self) -> Generator:
        """Return the direction in the Lie algebra."""
        matrices = [torch.as_tensor(g.matrix, dtype=torch.float64) for g in AFFINE_2D if g.name in self.names]
        return Generator(" and ".join(self.names), torch.stack(matrices).sum(0))


VERSIONS: dict[VersionName, tuple[Motion, ...]] = {
    VersionName.ORIGINAL: (),
    VersionName.PARTIALLY_ROTATED: (Motion(("rotation",), pi / 2),),
    VersionName.FULLY_ROTATED: (Motion(("rotation",), pi),),
    VersionName.TRANSLATED: (Motion(("x-translation",), 8, True), Motion(("y-translation",), 8, True)),
    VersionName.SCALED: (Motion(("x-scale", "y-scale"), log(2)),),
    VersionName.INDEPENDENTLY_SCALED: (Motion(("x-scale",), log(2)), Motion(("y-scale",), log(2))),
}


def transformed(images: Tensor, index: Tensor, version: str | VersionName, seed: int, part: int = 0) -> Tensor:
    """Transform images as a version of a data set has them.

    Args:
        images: the original images, shape (b, c, h, w). Pixels outside of an image are 0, which is black.
        index: the indices of the images in the data set, shape (b,).
        version: the name of the version.
        seed: the seed of the random amounts.
        part: 0 for training, 1 for test, whose amounts are independent of each other.
    """
    motions = VERSIONS[choose(VersionName, version, "version")]
    if not motions:
        return images
    reaches = [motion.range_(tuple(images.shape)) for motion in motions]
    moving = LieImages([motion.generator() for motion in motions], init=reaches).to(images.device)
    noise = Draw(seed, part).uniform(index, (1, len(motions)), images.dtype, Stream.DATA)
    with torch.no_grad():
        moved: Tensor = moving(images, noise)
    return moved[:, 0]


def true_ranges(version: str | VersionName, shape: tuple[int, ...]) -> Mapping[str, float]:
    """Return the range of each generator of `AFFINE_2D` in a version, 0 for generators that it does not use."""
    ranges = {generator.name: 0.0 for generator in AFFINE_2D}
    for motion in VERSIONS[choose(VersionName, version, "version")]:
        ranges |= dict.fromkeys(motion.names, motion.range_(shape))
    return ranges
