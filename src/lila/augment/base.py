"""The contract of an augmentation: a differentiable map from noise to a transformation of the input.

Indices used throughout: b examples, s samples, k noise dimensions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.suggestions import did_you_mean
from lila.augment.fixed import FixedNoise
from lila.errors import ArgumentError

Shape = tuple[int, ...]
"""The shape of one input, without the batch dimension."""


FIRST_OUTCOME = 2.0
"""A noise value of FIRST_OUTCOME + k asks for the k-th outcome of a transformation that has few of them."""


@suggests_arguments
@dataclass(frozen=True)
class InputFormat:
    """The inputs that an exported transformation is applied to.

    Attributes:
        shape: the shape of one input, (channels, height, width) for images.
        mean: the mean of each channel that was subtracted from pixels in [0, 1] before the transformation.
        std: the number by which each channel was divided afterwards.
    """

    shape: Shape
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Coupling:
    """Two ranges whose transformations do not move independently of each other.

    Attributes:
        first: the name of one range.
        second: the name of the other.
        correlation: between their coefficients, in [-1, 1].
    """

    first: str
    second: str
    correlation: float

    def text(self) -> str:
        """Return the coupling as a sentence without its full stop."""
        how = "move together" if self.correlation > 0 else "move against each other"
        return f"{self.first} and {self.second} {how}, correlation {self.correlation:.2f}"


@suggests_arguments
@dataclass(frozen=True)
class FullTurn:
    """A range of angles, and what its parameter would be if it were the full turn.

    Attributes:
        parameter: the tensor that holds the parameter.
        position: where in that tensor, along its only dimension.
        value: the parameter of the full turn.
        share: the present range as a share of the full turn, in [0, 1].
    """

    parameter: nn.Parameter
    position: int
    value: float
    share: float


Exporter = Callable[[InputFormat], str]
"""Writes a learned augmentation as Python source that defines `transform`, for one library."""


class Augmentation(nn.Module, ABC):
    """A distribution p(x' | x, eta), written as x' = g(x, eps; eta) with eps uniform on [-1, 1]^k.

    Noise is an argument: an augmentation applies it and never draws it. Its parameters are the hyperparameters that
    the evidence learns; there may be several tensors of them.

    A family implements `forward` and sets `noise_dim`. The other methods tell the rest of lila about it: its ranges and
    their units for summaries and reports, its arguments for saved runs, its flow for pictures, its code for other
    libraries. Each has a default, so a family overrides only what it can say more about. `lila.register_augmentation`
    makes a family known by name.

    Attributes:
        noise_dim: k, the number of noise values that one transformation takes.
        unit: the unit of `ranges`, for people to read; several units are separated by commas.
    """

    noise_dim: int
    unit: str = ""

    @abstractmethod
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        """Transform each input once per noise vector.

        Args:
            x: inputs, shape (b, *shape).
            noise: values in [-1, 1], shape (b, s, k).

        Returns:
            The transformed inputs, shape (b, s, *shape).
        """

    @property
    def outcomes(self) -> Mapping[int, int]:
        """The number of outcomes by noise dimension, for those that choose one of a few; none by default.

        Averages over views enumerate these outcomes: see `lila.augment.enumeration`.
        """
        return {}

    def outcome_probability(self, noise: Tensor) -> Tensor | None:
        """Return the probability of the combination of outcomes that each view asks for, shape (b, s).

        None if no outcome is asked for: the noise has no such dimension, or draws the outcomes.

        Args:
            noise: shape (b, s, k).
        """
        return None

    def check_shape(self, shape: Shape) -> None:
        """Raise DataError if the family cannot transform inputs of this shape; every shape is fine by default."""

    def adapt(self, inputs: InputFormat) -> None:
        """Take note of the inputs that the family will transform; nothing by default.

        It is called before training by those who know how the data was scaled, as `lila train` does. What a family
        keeps belongs to its `arguments`.
        """

    def view_shape(self, shape: Shape) -> Shape:
        """Return the shape of a transformed input; a family that crops its inputs returns another than theirs."""
        return shape

    def arguments(self) -> dict[str, Any] | None:
        """Return the arguments with which the class makes this augmentation again, but for learned values.

        They are plain data that JSON can hold. A run of a registered family is saved with them, so that `lila.load`
        makes the augmentation by itself. None, the default, means that whoever loads the run must pass it.
        """
        return None

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned range of each transformation by name, in the unit of its parameter; never negative."""
        return {}

    def readable(self, name: str, value: float, shape: Shape) -> str:
        """Write any value of a range for people to read.

        Args:
            name: one of the names in `ranges`.
            value: the value of the range, which need not be the learned one.
            shape: the shape of an input, to write shifts in pixels.
        """
        return f"±{value:.3g} {self.unit}".rstrip()

    def readable_ranges(self, shape: Shape) -> Mapping[str, str]:
        """Return the learned ranges as people read them, by name, for inputs of this shape."""
        return {name: self.readable(name, value, shape) for name, value in self.ranges.items()}

    @property
    def shares(self) -> Mapping[str, float]:
        """Each range as a share, in [0, 1], of a very large one; for bars in tables."""
        return {name: min(value, 1.0) for name, value in self.ranges.items()}

    def implausible_ranges(self) -> tuple[str, ...]:
        """Return the names of the ranges that are so large that little of an input is left; none by default."""
        return ()

    def full_turns(self) -> tuple[FullTurn, ...]:
        """Return the ranges of angles that may become a full turn, where the circle is closed; none by default."""
        return ()

    def couplings(self) -> tuple[Coupling, ...]:
        """Return the few strongest couplings between ranges, strongest first; none by default."""
        return ()

    def noise_index(self, name: str) -> int | None:
        """Return the noise dimension that moves an input through a range, or None if there is no such dimension.

        By default, the i-th noise value belongs to the i-th range if there are as many of both.
        """
        names = list(self.ranges)
        return names.index(name) if name in names and len(names) == self.noise_dim else None

    def directions(self, shape: Shape) -> Mapping[str, Tensor]:
        """Return the noise vectors along which a report moves an input from -1 to 1 times each, the largest first.

        By default they are one per range that has a noise dimension of its own.

        Args:
            shape: the shape of an input.

        Returns:
            Noise vectors of shape (k,), by a label for people to read.
        """
        readable, shares = self.readable_ranges(shape), self.shares
        found = {}
        for name in sorted(readable, key=lambda name: -shares[name]):
            index = self.noise_index(name)
            if index is not None:
                found[f"{name}, {readable[name]}"] = torch.eye(self.noise_dim)[index]
        return found

    def move_points(self, points: Tensor, noise: Tensor, shape: Shape) -> Tensor | None:
        """Return where a transformation takes points of an image, or None, the default, if there is no such picture.

        Args:
            points: (x, y) in pixels from the centre of the image, y downwards, shape (n, 2).
            noise: the noise of one transformation, shape (k,).
            shape: the shape of an image.
        """
        return None

    def fixed(self, noise: Tensor) -> nn.Module:
        """Return a module that maps inputs (b, *shape) to views (b, s, *shape) by the same noise for every input.

        A family may override it with a module that has computed whatever does not depend on the inputs.

        Args:
            noise: values in [-1, 1], shape (s, k).
        """
        return FixedNoise(self, noise)

    def transform_masks(self, masks: Tensor, noise: Tensor) -> Tensor | None:
        """Move masks as `forward` moves images, or return None, the default, if the family does not say how.

        Args:
            masks: labels of pixels as floating-point numbers, shape (b, masks, h, w).
            noise: the noise of the images, shape (b, s, k).

        Returns:
            The moved masks, shape (b, s, masks, h, w), with the values of the nearest pixels.
        """
        return None

    def exporters(self) -> Mapping[str, Exporter]:
        """Return the functions that write this augmentation as code, by library; there are none by default."""
        return {}

    def export(self, library: str, inputs: InputFormat) -> str:
        """Write the learned augmentation as Python source that defines `transform`.

        Args:
            library: the library that the code uses, one of `exporters()`.
            inputs: the inputs that the code is applied to.
        """
        self._check_ranges()
        exporters = self.exporters()
        if not exporters:
            raise ArgumentError(
                f"{type(self).__name__} has no code for other libraries. Its ranges can be written as JSON "
                "(`lila export --json`); to export code, override `exporters` in its class."
            )
        if library not in exporters:
            known = ", ".join(map(repr, exporters))
            meant = did_you_mean(library, exporters)
            raise ArgumentError(
                f"{type(self).__name__} cannot be exported to {library!r}; choose one of {known}.{meant} JSON is "
                "written by `lila export --json`, the network by --to onnx or pt2."
            )
        return exporters[library](inputs)

    def export_json(self, inputs: InputFormat) -> dict[str, Any]:
        """Return what was learned as plain data that JSON can hold.

        Args:
            inputs: the inputs that the augmentation is applied to.
        """
        self._check_ranges()
        return {
            "family": type(self).__name__,
            "ranges": dict(self.ranges),
            "readable_ranges": dict(self.readable_ranges(inputs.shape)),
            "couplings": [asdict(coupling) for coupling in self.couplings()],
            "mean": list(inputs.mean),
            "std": list(inputs.std),
        }

    def saturate_(self) -> None:
        """Bring parameters that left their sensible range back to its border; called after each hyper-step."""

    def check_noise(self, x: Tensor, noise: Tensor) -> None:
        """Raise ArgumentError unless noise has one row of k values per example and sample."""
        if noise.dim() != 3 or noise.shape[0] != x.shape[0] or noise.shape[2] != self.noise_dim:
            raise ArgumentError(
                f"{type(self).__name__} needs noise of shape ({x.shape[0]}, samples, {self.noise_dim}) for inputs of "
                f"shape {tuple(x.shape)}, but got {tuple(noise.shape)}."
            )

    def _check_ranges(self) -> None:
        if not self.ranges:
            raise ArgumentError(
                f"{type(self).__name__} has no ranges, so there is nothing to export: the network is not averaged over "
                "transformations, or the family does not name its ranges (`Augmentation.ranges`)."
            )
