"""The paper's transformed versions of an image data set (training_details.tex), each a row of one table.

A version turns, shifts or scales every image once, by a random amount that is a pure function of (seed, index), so that
the known range is there to be recovered. It is a Lie-group augmentation with ranges that are given instead of learned.
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
    """The versions by name."""

    ORIGINAL = "original"
    PARTIALLY_ROTATED = "partially-rotated"
    FULLY_ROTATED = "fully-rotated"
    TRANSLATED = "translated"
    SCALED = "scaled"


@dataclass(frozen=True)
class Motion:
    """A random motion of an image along one direction of the Lie algebra.

    Attributes:
        names: the generators of `AFFINE_2D` that it moves along, all by the same amount.
        reach: the largest amount, in the generators' unit, or in pixels.
        in_pixels: whether it is in pixels.
    """

    names: tuple[str, ...]
    reach: float
    in_pixels: bool = False

    def range_(self, shape: tuple[int, ...]) -> float:
        """The reach in the generators' unit, which for a shift is half the longer side of the image."""
        return self.reach / (max(shape[-2:]) / 2) if self.in_pixels else self.reach

    def generator(self) -> Generator:
        """The direction of the Lie algebra."""
        matrices = [torch.as_tensor(g.matrix, dtype=torch.float64) for g in AFFINE_2D if g.name in self.names]
        return Generator(" and ".join(self.names), torch.stack(matrices).sum(0))


VERSIONS: dict[VersionName, tuple[Motion, ...]] = {
    VersionName.ORIGINAL: (),
    VersionName.PARTIALLY_ROTATED: (Motion(("rotation",), pi / 2),),
    VersionName.FULLY_ROTATED: (Motion(("rotation",), pi),),
    VersionName.TRANSLATED: (Motion(("x-translation",), 8, True), Motion(("y-translation",), 8, True)),
    VersionName.SCALED: (Motion(("x-scale", "y-scale"), log(2)),),
}


def transformed(images: Tensor, index: Tensor, version: str | VersionName, seed: int, part: int = 0) -> Tensor:
    """Images of a version of a data set.

    Args:
        images: the originals, shape (b, c, h, w), with 0 for black, which is what lies outside of them.
        index: their indices in the data set, shape (b,).
        version: which.
        seed: of the random amounts.
        part: of the data set: 0 for training, 1 for test, whose amounts are independent.
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
    """The ranges by which a version moves its images, by generator of `AFFINE_2D`; 0 for the others."""
    ranges = {generator.name: 0.0 for generator in AFFINE_2D}
    for motion in VERSIONS[choose(VersionName, version, "version")]:
        ranges |= dict.fromkeys(motion.names, motion.range_(shape))
    return ranges
