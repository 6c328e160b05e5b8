"""Flips and quarter turns of images: transformations with few outcomes, each with a learned probability."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.choices import as_numbers
from lila.augment.base import FIRST_OUTCOME, Augmentation, Exporter, InputFormat, Shape
from lila.augment.export.plain import choice_code
from lila.augment.fixed import FixedOutcomes
from lila.errors import ArgumentError, DataError


@suggests_arguments
class DiscreteFamily(Augmentation):
    """One of K maps T_0, ..., T_{K-1} of the input, where T_0 is the identity, with learned probabilities.

    The parameter eta_k in [0, 1] is how probable the k-th map is compared with the identity:

        p_k = eta_k / (1 + sum_j eta_j),    p_0 = 1 / (1 + sum_j eta_j).

    So eta = 0 is the identity, and where eta_k is 1 the k-th map is as probable as none: all of eta at 1 is the uniform
    distribution over the K maps. In averages over views the maps are enumerated (`lila.augment.enumeration`), so a
    model needs at least K samples.

    A family derives from it, sets `names`, and defines `apply_map`.

    Args:
        init: the probability of each map but the identity from which learning starts: one number for all, or one each.

    Attributes:
        names: the names of the maps but the identity.
        eta: the learned parameter, shape (K - 1,).
    """

    noise_dim = 1
    unit = "probability"
    names: ClassVar[tuple[str, ...]]

    def __init__(self, init: float | Sequence[float] = 0.0) -> None:
        super().__init__()
        given = as_numbers("init", init, len(self.names))
        if len(given) != len(self.names):
            raise ArgumentError(f"init has {len(given)} values for the probabilities of {', '.join(self.names)}.")
        stays = 1 - sum(given)
        if not all(0 <= p <= stays + 1e-9 for p in given):  # also refuses NaN
            raise ArgumentError(
                f"init must be probabilities of {', '.join(self.names)}, none of them larger than what they leave for "
                f"the input as it is, 1 - their sum; but it is {given}."
            )
        self.eta = nn.Parameter(torch.tensor([p / stays for p in given]))

    @abstractmethod
    def apply_map(self, x: Tensor, k: int) -> Tensor:
        """Return T_k x for inputs x of shape (n, *shape) and k from 1 to K - 1."""

    @property
    def outcomes(self) -> Mapping[int, int]:
        return {0: len(self.names) + 1}

    def probabilities(self) -> Tensor:
        """Return p_0, ..., p_{K-1}, shape (K,)."""
        relative = torch.cat([self.eta.new_ones(1), self.eta.clamp(0, 1)])
        return relative / relative.sum()

    def outcome(self, noise: Tensor) -> Tensor:
        """Return the number of the map that each noise vector (..., 1) chooses, shape (...)."""
        value = noise[..., 0].detach()
        # The identity takes the middle of [-1, 1], so that zero noise leaves inputs as they are.
        ends = self.probabilities().detach().cumsum(0)[:-1].to(value)
        drawn = torch.searchsorted(ends, value.abs().contiguous())
        return torch.where(value >= FIRST_OUTCOME, (value - FIRST_OUTCOME).round().long(), drawn)

    def outcome_probability(self, noise: Tensor) -> Tensor | None:
        asked = noise[..., 0] >= FIRST_OUTCOME
        if not bool(asked.any()):
            return None
        if not bool(asked.all()):
            raise ArgumentError(
                f"Some views ask for an outcome of {type(self).__name__} and others draw one, so that they have no "
                "common weights. Take the noise of all views from `InvariantModel.draw`, or draw all of it."
            )
        return self.probabilities()[self.outcome(noise)]

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        flat = x.unsqueeze(1).expand(-1, noise.shape[1], *x.shape[1:]).flatten(0, 1)
        outcome = self.outcome(noise).flatten()
        which = [torch.nonzero(outcome == k).flatten() for k in range(len(self.names) + 1)]
        parts = [self._mapped(flat[rows], k) for k, rows in enumerate(which)]
        back = torch.cat(which).argsort()
        return torch.cat(parts)[back].unflatten(0, noise.shape[:2])

    def fixed(self, noise: Tensor) -> nn.Module:
        return FixedOutcomes([partial(self._mapped, k=int(k)) for k in self.outcome(noise)])

    def _mapped(self, x: Tensor, k: int) -> Tensor:
        return self.apply_map(x, k) if k else x

    def arguments(self) -> dict[str, Any] | None:
        return {}

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned probability of each map but the identity by name."""
        return dict(zip(self.names, self.probabilities().detach()[1:].tolist(), strict=True))

    def readable(self, name: str, value: float, shape: Shape) -> str:
        return f"{value:.1%}"

    @property
    def shares(self) -> Mapping[str, float]:
        """Each probability as a share of that of the identity."""
        return dict(zip(self.names, self.eta.detach().clamp(0, 1).tolist(), strict=True))

    def noise_index(self, name: str) -> int | None:
        return None  # a slider cannot move through a choice

    @torch.no_grad()
    def saturate_(self) -> None:
        self.eta.clamp_(0, 1)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:.3g}" for name, value in self.ranges.items())


class _OfImages(DiscreteFamily):
    """Maps of images of shape (channels, height, width).

    Attributes:
        expressions: each map but the identity as exported code writes it, of a tensor named `image`.
    """

    expressions: ClassVar[tuple[str, ...]]

    def exporters(self) -> dict[str, Exporter]:
        maps = dict(zip(self.names, self.expressions, strict=True))
        return {"torch": partial(choice_code, self.probabilities().tolist(), maps)}

    def check_shape(self, shape: Shape) -> None:
        if len(shape) != 3:
            raise DataError(
                f"{type(self).__name__} transforms images of shape (channels, height, width), but its inputs have "
                f"shape {shape}. Grey images need a channel dimension: x.unsqueeze(1)."
            )

    def transform_masks(self, masks: Tensor, noise: Tensor) -> Tensor:
        return self(masks, noise)  # no pixel is interpolated

    def move_points(self, points: Tensor, noise: Tensor, shape: Shape) -> Tensor:
        k = int(self.outcome(noise))
        return self.map_points(points, k) if k else points

    @abstractmethod
    def map_points(self, points: Tensor, k: int) -> Tensor:
        """Return where T_k takes points (x, y) from the centre of the image, y downwards, shape (n, 2)."""


class HorizontalFlip(_OfImages):
    """Images mirrored left to right with a learned probability, at most 1/2."""

    names = ("horizontal flip",)
    expressions = ("image.flip(-1)",)

    def apply_map(self, x: Tensor, k: int) -> Tensor:
        return x.flip(-1)

    def map_points(self, points: Tensor, k: int) -> Tensor:
        return points * points.new_tensor([-1, 1])

    def exporters(self) -> dict[str, Exporter]:
        return super().exporters() | _flip_exporters("HorizontalFlip", self.ranges["horizontal flip"])


class VerticalFlip(_OfImages):
    """Images mirrored top to bottom with a learned probability, at most 1/2."""

    names = ("vertical flip",)
    expressions = ("image.flip(-2)",)

    def apply_map(self, x: Tensor, k: int) -> Tensor:
        return x.flip(-2)

    def map_points(self, points: Tensor, k: int) -> Tensor:
        return points * points.new_tensor([1, -1])

    def exporters(self) -> dict[str, Exporter]:
        return super().exporters() | _flip_exporters("VerticalFlip", self.ranges["vertical flip"])


class QuarterTurns(_OfImages):
    """Square images turned by a quarter, a half or three quarters, each with a learned probability."""

    names = ("quarter turn", "half turn", "three-quarter turn")
    expressions = tuple(f"image.rot90({k}, (-2, -1))" for k in (1, 2, 3))

    def apply_map(self, x: Tensor, k: int) -> Tensor:
        """Return images turned k times from y to x, which is counter-clockwise where y points down."""
        return x.rot90(k, (-2, -1))

    def map_points(self, points: Tensor, k: int) -> Tensor:
        quarter = points.new_tensor([[0, 1], [-1, 0]])  # (x, y) to (y, -x)
        return points @ torch.linalg.matrix_power(quarter, k).mT

    def check_shape(self, shape: Shape) -> None:
        super().check_shape(shape)
        if shape[-1] != shape[-2]:
            raise DataError(f"QuarterTurns turns square images, but its inputs have shape {shape}.")


_FLIP_CODE = {
    "torchvision": "from torchvision import transforms\n\ntransform = transforms.Random{name}(p={p:.4g})\n",
    "kornia": "import kornia.augmentation as K\n\ntransform = K.Random{name}(p={p:.4g})\n",
    "albumentations": "import albumentations as A\n\ntransform = A.{name}(p={p:.4g})\n",
}


def _flip_exporters(name: str, p: float) -> dict[str, Exporter]:
    return {library: partial(_flip_code, library, name, p) for library in _FLIP_CODE}


def _flip_code(library: str, name: str, p: float, inputs: InputFormat) -> str:
    return _FLIP_CODE[library].format(name=name, p=p)
