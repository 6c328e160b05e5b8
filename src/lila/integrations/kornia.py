"""Differentiable functions and augmentations of kornia, as families whose parameters are ranges.

kornia's augmentations draw their parameters from fixed ranges. Here the ranges are learned: noise is scaled by them and
becomes the parameters of each view.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila.augment.base import InputFormat, Shape
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range, RangeFamily
from lila.errors import ArgumentError, DataError, ModelError


@suggests_arguments
@dataclass(frozen=True)
class KorniaRange(Range):
    """A learned range of an argument of kornia: the argument is neutral + scale c, with c uniform on [-r, r].

    Attributes:
        argument: the name of the argument, or of the entry of `params` of an augmentation. Several ranges with the same
            argument are the entries of a vector, as the two entries of a translation.
        neutral: the value of the argument that changes nothing.
        scale: the change of the argument for a range of 1: 180 / pi for an angle that kornia takes in degrees, so that
            its range is in radians. Ranges should be of the order of 1, as their learning rate is the same for all.
    """

    argument: str
    neutral: float = 0.0
    scale: float = 1.0


@suggests_arguments
class Kornia(RangeFamily):
    """Images changed by a differentiable function, or by an augmentation module, of kornia.

    `lila.Kornia(kornia.geometry.transform.rotate, [lila.KorniaRange("rotation", argument="angle", scale=180 / pi)])`

    A run with this family is loaded by passing it again: `lila.load(folder, augmentation=...)`.

    Args:
        apply: a function of images (n, c, h, w) and of arguments by name, each of shape (n,), or (n, entries) for
            vectors; or a module of `kornia.augmentation` with p=1, which gets the arguments as `params`. It must be
            differentiable in them, and must not draw random numbers. Fix other arguments by `functools.partial`.
        ranges: the learned ranges.
        init: the range from which each starts; 0 if None.
        parameterisation: how a range is written as eta.
        pixels: whether `apply` needs pixels in [0, 1], as changes of colour do. Inputs that `lila train` has scaled are
            then scaled back first, and again afterwards.
    """

    def __init__(
        self,
        apply: Callable[..., Tensor],
        ranges: Sequence[KorniaRange],
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        pixels: bool = False,
    ) -> None:
        if not ranges:
            raise ArgumentError("Kornia needs at least one range.")
        super().__init__(ranges, init, parameterisation)
        if not callable(apply):
            raise ArgumentError(f"Kornia needs a function or a module of kornia, not {apply!r}.")
        _check_arguments(apply, ranges)
        self.apply_to, self.pixels, self._learned = apply, pixels, tuple(ranges)
        self.mean: tuple[float, ...] = (0.0,)
        self.std: tuple[float, ...] = (1.0,)

    def adapt(self, inputs: InputFormat) -> None:
        if self.pixels:
            self.mean, self.std = tuple(inputs.mean), tuple(inputs.std)

    def check_shape(self, shape: Shape) -> None:
        if len(shape) != 3:
            raise DataError(
                f"kornia transforms images of shape (channels, height, width), but the inputs have shape {shape}."
            )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        samples = noise.shape[1]
        mean, std = (x.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        images = (x * std + mean).repeat_interleave(samples, 0)
        values = self._values(self.coefficients(noise).to(x.dtype).flatten(0, 1))
        if isinstance(self.apply_to, nn.Module):
            changed = self.apply_to(images, params={**values, "batch_prob": torch.ones_like(images[:, 0, 0, 0])})
        else:
            changed = self.apply_to(images, **values)
        if not isinstance(changed, Tensor) or changed.shape != images.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise ModelError(
                f"{self.apply_to} must return images of the shape {tuple(images.shape)} that it was given, but "
                f"returned {got}."
            )
        return ((changed - mean) / std).unflatten(0, (x.shape[0], samples))

    def _values(self, coefficients: Tensor) -> Mapping[str, Any]:
        """Return the arguments of each view by name: shape (n,), or (n, entries) for vectors."""
        entries: dict[str, list[Tensor]] = {}
        for range_, c in zip(self._learned, coefficients.unbind(-1), strict=True):
            entries.setdefault(range_.argument, []).append(range_.neutral + range_.scale * c)
        return {name: found[0] if len(found) == 1 else torch.stack(found, -1) for name, found in entries.items()}


def _check_arguments(apply: Callable[..., Tensor], ranges: Sequence[KorniaRange]) -> None:
    """Raise ArgumentError if a function is known not to take an argument by the name of a range."""
    if isinstance(apply, nn.Module):
        return  # the names are those of its params
    try:
        taken = inspect.signature(apply).parameters
    except (TypeError, ValueError):  # a compiled function does not tell
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    for range_ in ranges:
        if range_.argument not in taken:
            raise ArgumentError(
                f"The range {range_.name!r} is of the argument {range_.argument!r}, but {apply} takes "
                f"{', '.join(taken)}."
            )
