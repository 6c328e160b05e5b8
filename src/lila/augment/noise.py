"""Randomness as a pure function of (seed, epoch, example index).

A result must not depend on the batch size, the microbatch size, the order of the examples or the number of processes,
and the two passes of one hyper-step must see the same noise. A stateful generator cannot guarantee that, but a
counter-based one can: every random word is a hash of its own address. The hash is Philox-4x32-10 (Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", 2011), written with 64-bit integer tensors, so that CPU and CUDA give the
same bits.

Address of a word: key = (seed low, seed high), counter = (block + stream, index low, index high, epoch).
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from math import ceil, prod

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila.errors import ArgumentError

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_ARRANGEMENTS = 100  # random arrangements, of which the best is used for predictions
_STREAM_SHIFT = 24  # a block number takes the low 24 bits of its word, the stream the high 8


class Stream(IntEnum):
    """The uses of noise; each use has random words of its own."""

    AUGMENTATION = 0
    PROBES = 1
    SUBSET = 2
    SHUFFLE = 3
    DATA = 4
    PREDICTION = 5


class NoiseName(StrEnum):
    """The joint distribution of the noise of the S views of one example; each view by itself is always uniform."""

    INDEPENDENT = "independent"
    """The views are independent of each other, as in the paper."""
    STRATIFIED = "stratified"
    """A Latin hypercube: along each axis, each of S equal intervals holds exactly one view. Averages over the views
    vary less, and far less if one range dominates."""


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> Tensor:
    """Return the four 32-bit words of Philox-4x32-10 at each counter, as int64 in a last dimension of size 4.

    Args:
        counter: four int64 tensors of words in [0, 2^32), which broadcast against each other.
        key: two words in [0, 2^32).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # Above 2^63 the 64-bit product wraps to a negative int64, but its bits are right, and the mask drops the sign.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        high0, low0 = (p0 >> 32) & _WORD, p0 & _WORD
        high1, low1 = (p1 >> 32) & _WORD, p1 & _WORD
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return torch.stack(torch.broadcast_tensors(c0, c1, c2, c3), dim=-1)


@suggests_arguments
@dataclass(frozen=True)
class Draw:
    """The noise of one pass over the data, in which an example's noise depends on its index alone.

    Attributes:
        seed: the seed of the run, an integer in [0, 2^64).
        epoch: the number of the pass, an integer in [0, 2^32); another epoch gives independent noise.
    """

    seed: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        for name, value, bits in (("seed", self.seed, 64), ("epoch", self.epoch, 32)):
            if not isinstance(value, int) or not 0 <= value < 2**bits:
                raise ArgumentError(f"{name} must be a whole number in [0, 2^{bits}), but is {value}.")

    def words(self, index: Tensor, shape: tuple[int, ...], stream: Stream) -> Tensor:
        """Return random words in [0, 2^32), an int64 tensor of shape (len(index), *shape)."""
        count = prod(shape)
        blocks = torch.arange(ceil(count / 4), device=index.device) + (stream << _STREAM_SHIFT)
        column = index.to(torch.int64)[:, None]
        epoch = torch.full_like(column, self.epoch)
        words = philox(
            (blocks[None], column & _WORD, (column >> 32) & _WORD, epoch), (self.seed & _WORD, self.seed >> 32)
        )
        return words.flatten(1)[:, :count].reshape(len(index), *shape)

    def uniform(
        self, index: Tensor, shape: tuple[int, ...], dtype: torch.dtype, stream: Stream = Stream.AUGMENTATION
    ) -> Tensor:
        """Return uniform noise on [-1, 1] of shape (len(index), *shape), by default for the augmentation."""
        words = self.words(index, shape, stream)
        return ((words.double() + 0.5) / 2**31 - 1).to(dtype)

    def stratified(self, index: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Return uniform noise on [-1, 1] of shape (len(index), s, k), stratified over the s views of each example.

        Along each axis, [-1, 1] is cut into s equal intervals. Each view takes one of them, in random order, and a
        random place in it. So every view is uniform, and the axes are independent of each other.
        """
        order, place = self.words(index, (2, *shape), Stream.AUGMENTATION).unbind(1)
        interval = order.argsort(dim=1, stable=True)  # (b, s, k)
        return ((interval + (place.double() + 0.5) / 2**32) * (2 / shape[0]) - 1).to(dtype)

    def signs(self, index: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return random signs for probes, of shape (len(index), *shape)."""
        words = self.words(index, shape, Stream.PROBES)
        return ((words >> 31) * 2 - 1).to(dtype)

    def subset(self, size: int, count: int) -> Tensor:
        """Return the indices, in ascending order, of `count` random examples out of `size`, without repetition."""
        if not 1 <= count <= size:
            raise ArgumentError(f"A subset of {size} examples must have between 1 and {size} examples, not {count}.")
        return self._order(size, Stream.SUBSET)[:count].sort().values

    def permutation(self, size: int) -> Tensor:
        """Return the order in which an epoch goes through `size` examples."""
        return self._order(size, Stream.SHUFFLE)

    def _order(self, size: int, stream: Stream) -> Tensor:
        return self.words(torch.arange(size), (1,), stream)[:, 0].argsort(stable=True)


@cache
@torch.inference_mode(False)  # the cached tensor must also serve calls that track gradients
def balanced_noise(samples: int, dimensions: int) -> Tensor:
    """Return noise on [-1, 1] that covers the cube evenly, a Latin hypercube; a single sample is zero.

    Along each axis the values are the middles of S equal intervals, so that their mean is exactly zero and their mean
    square is (1 - 1/S^2) / 3. Of many random orders along the axes, the one with the smallest correlations is used.

    Returns:
        A float64 tensor of shape (samples, dimensions), which is shared and must not be changed.
    """
    middles = 2 * torch.arange(samples) + 1 - samples  # times S: whole numbers, whose products are exact everywhere
    words = Draw().words(torch.arange(_ARRANGEMENTS * dimensions), (samples,), Stream.PREDICTION)
    noise = middles[words.argsort(dim=1, stable=True)].unflatten(0, (_ARRANGEMENTS, dimensions)).mT  # (a, s, k)
    correlation = (noise.mT @ noise).triu(diagonal=1).square().sum((1, 2))
    return noise[correlation.argmin()].double() / samples
