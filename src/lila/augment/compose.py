"""Several augmentations, one after the other."""

from collections.abc import Mapping
from itertools import count
from typing import TypeVar, cast

from torch import Tensor, nn

from lila.augment.base import Augmentation

T = TypeVar("T")


class Compose(Augmentation):
    """Apply augmentations in the order given, each with noise of its own: x' = g_m(... g_1(x)).

    With none at all it is the identity, which turns an invariant network into the plain one. Ranges of parts that use
    the same name are told apart by a number ("rotation", "rotation 2").

    Args:
        parts: the augmentations, first applied first.
    """

    def __init__(self, *parts: Augmentation) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.noise_dim = sum(part.noise_dim for part in parts)

    def _parts(self) -> list[Augmentation]:
        return [cast("Augmentation", part) for part in self.parts]

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        batch, samples = noise.shape[:2]
        if not self.parts:
            return x.unsqueeze(1).expand(batch, samples, *x.shape[1:])
        first, *others = self._parts()
        own, rest = noise[..., : first.noise_dim], noise[..., first.noise_dim :]
        views: Tensor = first(x, own)
        for part in others:
            own, rest = rest[..., : part.noise_dim], rest[..., part.noise_dim :]
            flat: Tensor = part(views.flatten(0, 1), own.reshape(batch * samples, 1, part.noise_dim))
            views = flat.reshape(batch, samples, *flat.shape[2:])
        return views

    @property
    def ranges(self) -> Mapping[str, float]:
        return self._merged([part.ranges for part in self._parts()])

    def readable_ranges(self, shape: tuple[int, ...]) -> Mapping[str, str]:
        return self._merged([part.readable_ranges(shape) for part in self._parts()])

    @property
    def shares(self) -> Mapping[str, float]:
        return self._merged([part.shares for part in self._parts()])

    def saturate_(self) -> None:
        for part in self._parts():
            part.saturate_()

    @staticmethod
    def _merged(by_part: list[Mapping[str, T]]) -> dict[str, T]:
        merged: dict[str, T] = {}
        for part in by_part:
            for name, value in part.items():
                numbered = (name if n == 1 else f"{name} {n}" for n in count(1))
                merged[next(free for free in numbered if free not in merged)] = value
        return merged
