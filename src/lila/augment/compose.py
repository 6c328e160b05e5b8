"""Several augmentations, one after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from typing import Any, cast

import torch
from torch import Tensor, nn

from lila._util.choices import check_instance
from lila.augment.base import Augmentation, Coupling, Exporter, FullTurn, InputFormat, Shape
from lila.augment.checks import check_views
from lila.augment.export.plain import sequence_code
from lila.augment.fixed import FixedSequence
from lila.errors import ArgumentError


class Compose(Augmentation):
    """Apply augmentations in the order given, each with noise of its own: x' = g_m(... g_1(x)).

    Without any augmentation it is the identity, which turns an invariant network into the plain one. Ranges with the
    same name in several parts get a number ("rotation", "rotation 2").

    Args:
        parts: the augmentations, in the order in which they are applied.
    """

    def __init__(self, *parts: Augmentation) -> None:
        super().__init__()
        for part in parts:
            check_instance(part, Augmentation, "Each part of a Compose")
        if len({id(part) for part in parts}) < len(parts):
            raise ArgumentError(
                "The same object is among the parts of a Compose more than once, so they would share their ranges. "
                "Make an augmentation for each part."
            )
        self.parts = nn.ModuleList(parts)
        self.noise_dim = sum(part.noise_dim for part in parts)
        self.unit = ", ".join(dict.fromkeys(part.unit for part in parts if part.unit))

    def _parts(self) -> list[Augmentation]:
        return [cast("Augmentation", part) for part in self.parts]

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        views = _one_after_the_other(self._parts(), _checked_views, x, noise)
        assert views is not None
        return views

    def fixed(self, noise: Tensor) -> nn.Module:
        if not self.parts:
            return super().fixed(noise)
        own = noise.split([part.noise_dim for part in self._parts()], dim=1)
        first, *others = zip(self._parts(), own, strict=True)
        return FixedSequence(first[0].fixed(first[1]), [[part.fixed(e[None]) for e in es] for part, es in others])

    def transform_masks(self, masks: Tensor, noise: Tensor) -> Tensor | None:
        self.check_noise(masks, noise)
        return _one_after_the_other(self._parts(), _moved_masks, masks, noise)

    @property
    def outcomes(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        offset = 0
        for part in self._parts():
            found |= {offset + dimension: count for dimension, count in part.outcomes.items()}
            offset += part.noise_dim
        return found

    def outcome_probability(self, noise: Tensor) -> Tensor | None:
        if not self.outcomes:
            return None
        own = noise.split([part.noise_dim for part in self._parts()], dim=-1)
        found = [part.outcome_probability(one) for part, one in zip(self._parts(), own, strict=True)]
        known = [probability for probability in found if probability is not None]
        return reduce(torch.mul, known) if known else None

    def check_shape(self, shape: Shape) -> None:
        for part in self._parts():
            part.check_shape(shape)
            shape = part.view_shape(shape)

    def adapt(self, inputs: InputFormat) -> None:
        for part in self._parts():
            part.adapt(inputs)

    def view_shape(self, shape: Shape) -> Shape:
        for part in self._parts():
            shape = part.view_shape(shape)
        return shape

    @property
    def ranges(self) -> Mapping[str, float]:
        return {name: own.part.ranges[own.name] for name, own in self._owners().items()}

    def readable(self, name: str, value: float, shape: Shape) -> str:
        own = self._owner(name)
        return own.part.readable(own.name, value, shape)

    @property
    def shares(self) -> Mapping[str, float]:
        return {name: own.part.shares[own.name] for name, own in self._owners().items()}

    def implausible_ranges(self) -> tuple[str, ...]:
        return tuple(name for name, own in self._owners().items() if own.name in own.part.implausible_ranges())

    def full_turns(self) -> tuple[FullTurn, ...]:
        return tuple(turn for part in self._parts() for turn in part.full_turns())

    def couplings(self) -> tuple[Coupling, ...]:
        named = {(own.part, own.name): name for name, own in self._owners().items()}
        found = [
            Coupling(named[part, one.first], named[part, one.second], one.correlation)
            for part in self._parts()
            for one in part.couplings()
        ]
        return tuple(sorted(found, key=lambda one: -abs(one.correlation)))

    def noise_index(self, name: str) -> int | None:
        own = self._owner(name)
        index = own.part.noise_index(own.name)
        return None if index is None else own.offset + index

    def directions(self, shape: Shape) -> Mapping[str, Tensor]:
        found: dict[str, Tensor] = {}
        offset = 0
        for part in self._parts():
            for label, own in part.directions(shape).items():
                noise = own.new_zeros(self.noise_dim)
                noise[offset : offset + part.noise_dim] = own
                found[_free(label, found)] = noise
            offset += part.noise_dim
            shape = part.view_shape(shape)
        return found

    def move_points(self, points: Tensor, noise: Tensor, shape: Shape) -> Tensor | None:
        moved, offset = None, 0
        for part in self._parts():
            moved = part.move_points(points, noise[offset : offset + part.noise_dim], shape)
            if moved is None:
                return None
            points, offset, shape = moved, offset + part.noise_dim, part.view_shape(shape)
        return moved

    def exporters(self) -> Mapping[str, Exporter]:
        """Return the code of the part if there is only one; a sequence has code for torch if all of its parts have."""
        if len(self.parts) == 1:
            return self._parts()[0].exporters()
        every = bool(self.parts) and all("torch" in part.exporters() for part in self._parts())
        return {"torch": self._code} if every else {}

    def _code(self, inputs: InputFormat) -> str:
        sources = []
        for part in self._parts():
            sources.append(part.export("torch", inputs))
            inputs = replace(inputs, shape=part.view_shape(inputs.shape))
        return sequence_code(sources)

    def export_json(self, inputs: InputFormat) -> dict[str, Any]:
        return super().export_json(inputs) | {
            "parts": [part.export_json(inputs) for part in self._parts() if part.ranges]
        }

    def saturate_(self) -> None:
        for part in self._parts():
            part.saturate_()

    def _owner(self, name: str) -> "_Owner":
        owners = self._owners()
        if name not in owners:
            raise ArgumentError(f"There is no range named {name!r}; the ranges are {', '.join(owners)}.")
        return owners[name]

    def _owners(self) -> dict[str, "_Owner"]:
        """Return where each range comes from, by its name in this augmentation."""
        owners: dict[str, _Owner] = {}
        offset = 0
        for part in self._parts():
            for name in part.ranges:
                owners[_free(name, owners)] = _Owner(part, name, offset)
            offset += part.noise_dim
        return owners


def _one_after_the_other(
    parts: Sequence[Augmentation],
    apply: Callable[[Augmentation, Tensor, Tensor], Tensor | None],
    x: Tensor,
    noise: Tensor,
) -> Tensor | None:
    """Apply augmentations in their order, each with its own share of the noise; None if one of them returns None.

    Args:
        parts: the augmentations.
        apply: applies an augmentation to inputs (b, *shape) and noise (b, s, k) of its own.
        x: the inputs, shape (b, *shape).
        noise: the noise of all augmentations, shape (b, s, k).
    """
    batch, samples = noise.shape[:2]
    if not parts:
        return x.unsqueeze(1).expand(batch, samples, *x.shape[1:])
    first, *others = parts
    own, rest = noise[..., : first.noise_dim], noise[..., first.noise_dim :]
    views = apply(first, x, own)
    for part in others:
        if views is None:
            return None
        own, rest = rest[..., : part.noise_dim], rest[..., part.noise_dim :]
        flat = apply(part, views.flatten(0, 1), own.reshape(batch * samples, 1, part.noise_dim))
        views = None if flat is None else flat.reshape(batch, samples, *flat.shape[2:])
    return views


def _checked_views(augmentation: Augmentation, x: Tensor, noise: Tensor) -> Tensor:
    views: Tensor = augmentation(x, noise)
    check_views(augmentation, x, noise, views)
    return views


def _moved_masks(augmentation: Augmentation, masks: Tensor, noise: Tensor) -> Tensor | None:
    return augmentation.transform_masks(masks, noise)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name, with a number behind it if it is taken already."""
    numbered = (name if n == 1 else f"{name} {n}" for n in count(1))
    return next(free for free in numbered if free not in taken)


@dataclass(frozen=True)
class _Owner:
    """Where a range of a composition comes from.

    Attributes:
        part: the augmentation that has the range.
        name: the name of the range there.
        offset: where the noise of the part begins.
    """

    part: Augmentation
    name: str
    offset: int
