"""Random operations on each image; nothing is learned.

Müller and Hutter, "TrivialAugment: Tuning-Free Yet State-of-the-Art Data Augmentation", ICCV 2021. Each view is made by
one operation, drawn uniformly from fourteen, with a strength that is drawn uniformly too; the strengths are the wide
ones of the paper, in which shifts are a share of the image's side. The loss is averaged over the views, as in standard
data augmentation, and predictions are for the images as they are. It is trained for as long as lila takes.
"""

from collections.abc import Callable, Mapping
from math import pi
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.augment.base import Augmentation, InputFormat
from lila.augment.compose import Compose
from lila.compare.epochs import epochs_of_weights, start_weights
from lila.compare.system import Conditions, Found, Stopwatch
from lila.model.invariant import InvariantModel

_ROTATION, _SHEAR, _SHIFT = 0.75 * pi, 0.99, 2.0  # the largest; a shift is in half sides of the image
_ENHANCEMENT = 0.99  # the largest distance of a factor of brightness, contrast and the like from 1
_LEAST_BITS, _MOST_BITS = 2, 8
_LEVELS = 256
_PROBE_EPOCHS = 3  # of which the last two are timed

Operation = Callable[[Tensor, Tensor], Tensor]
"""Changes images (n, c, h, w) with pixels in [0, 1] by strengths (n,) in [-1, 1]."""


def _warp(x: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, shift: Tensor | None = None) -> Tensor:
    """Map images by x' = a x + b y + shift_x, y' = c x + d y + shift_y, with black outside."""
    moved = torch.zeros(len(x), 2, dtype=x.dtype, device=x.device) if shift is None else shift
    theta = torch.stack([torch.stack([a, b, moved[:, 0]], 1), torch.stack([c, d, moved[:, 1]], 1)], 1)  # (n, 2, 3)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def _rotate(x: Tensor, strength: Tensor) -> Tensor:
    angle = _ROTATION * strength
    return _warp(x, angle.cos(), -angle.sin(), angle.sin(), angle.cos())


def _shear_x(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _warp(x, one, _SHEAR * strength, 0 * one, one)


def _shear_y(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _warp(x, one, 0 * one, _SHEAR * strength, one)


def _shift_x(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _warp(x, one, 0 * one, 0 * one, one, _SHIFT * torch.stack([strength, 0 * one], 1))


def _shift_y(x: Tensor, strength: Tensor) -> Tensor:
    one = torch.ones_like(strength)
    return _warp(x, one, 0 * one, 0 * one, one, _SHIFT * torch.stack([0 * one, strength], 1))


def _blend(x: Tensor, other: Tensor, strength: Tensor) -> Tensor:
    """Move images away from another version of them, or towards it: other + factor (x - other), factor about 1."""
    factor = (1 + _ENHANCEMENT * strength)[:, None, None, None]
    return (other + factor * (x - other)).clamp(0, 1)


def _brightness(x: Tensor, strength: Tensor) -> Tensor:
    return _blend(x, torch.zeros_like(x), strength)


def _contrast(x: Tensor, strength: Tensor) -> Tensor:
    return _blend(x, x.mean((1, 2, 3), keepdim=True).expand_as(x), strength)


def _colour(x: Tensor, strength: Tensor) -> Tensor:
    return _blend(x, x.mean(1, keepdim=True).expand_as(x), strength)


def _sharpness(x: Tensor, strength: Tensor) -> Tensor:
    """Blend with a blurred version, whose border is that of the image."""
    kernel = x.new_tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
    blurred = x.clone()
    blurred[..., 1:-1, 1:-1] = F.conv2d(x, kernel.expand(x.shape[1], 1, 3, 3), groups=x.shape[1])
    return _blend(x, blurred, strength)


def _posterise(x: Tensor, strength: Tensor) -> Tensor:
    """Keep the leading bits of each pixel, fewer for a larger strength."""
    bits = _MOST_BITS - ((_MOST_BITS - _LEAST_BITS) * strength.abs()).round()
    step = (2 ** (_MOST_BITS - bits))[:, None, None, None]
    return ((x * (_LEVELS - 1)).round() / step).floor() * step / (_LEVELS - 1)


def _solarise(x: Tensor, strength: Tensor) -> Tensor:
    """Invert pixels above a threshold, which is lower for a larger strength."""
    threshold = (1 - strength.abs())[:, None, None, None]
    return torch.where(x > threshold, 1 - x, x)


def _autocontrast(x: Tensor, strength: Tensor) -> Tensor:
    """Stretch each channel to the whole interval."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1e-6), x)


def _equalise(x: Tensor, strength: Tensor) -> Tensor:
    """Make the pixels of each channel as evenly distributed as possible."""
    level = (x * (_LEVELS - 1)).round().long().flatten(2)  # (n, c, h w)
    counts = torch.zeros(*level.shape[:2], _LEVELS, device=x.device).scatter_add_(
        2, level, torch.ones_like(level) * 1.0
    )
    shares = counts.cumsum(2) / level.shape[2]
    least = shares.gather(2, level.amin(2, keepdim=True))
    even = (shares.gather(2, level) - least) / (1 - least).clamp(min=1e-6)
    return even.to(x.dtype).view_as(x).where(least.unsqueeze(3) < 1, x)


def _identity(x: Tensor, strength: Tensor) -> Tensor:
    return x


OPERATIONS: Mapping[str, Operation] = {
    "identity": _identity,
    "auto-contrast": _autocontrast,
    "equalise": _equalise,
    "rotate": _rotate,
    "solarise": _solarise,
    "colour": _colour,
    "posterise": _posterise,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear-x": _shear_x,
    "shear-y": _shear_y,
    "shift-x": _shift_x,
    "shift-y": _shift_y,
}
"""The operations of the paper."""


class TrivialAugment(Augmentation):
    """One random operation of random strength per view; the noise chooses both.

    Attributes:
        mean: the mean of each channel that was subtracted from pixels in [0, 1].
        std: the number by which each channel was divided afterwards.
    """

    noise_dim = 2

    def __init__(self) -> None:
        super().__init__()
        self.mean: tuple[float, ...] = (0.0,)
        self.std: tuple[float, ...] = (1.0,)

    def adapt(self, inputs: InputFormat) -> None:
        """Take note of how the pixels were scaled."""
        self.mean, self.std = inputs.mean, inputs.std

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_noise(x, noise)
        mean, std = (x.new_tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        pixels = (x * std + mean).clamp(0, 1).repeat_interleave(noise.shape[1], 0)
        choice, strength = noise.flatten(0, 1).unbind(1)
        number = ((choice + 1) / 2 * len(OPERATIONS)).long().clamp(0, len(OPERATIONS) - 1)
        views = pixels.clone()
        for position, operation in enumerate(OPERATIONS.values()):
            mine = number == position
            if mine.any():
                views[mine] = operation(pixels[mine], strength[mine])
        return ((views - mean) / std).unflatten(0, noise.shape[:2])


def train_trivial(conditions: Conditions, **changes: Any) -> tuple[InvariantModel, list[float]]:
    """Train with random operations; return the network without them, and the CPU seconds when each epoch was done."""
    augmentation, scaling = TrivialAugment(), conditions.task.scaling
    augmentation.adapt(InputFormat(conditions.task.shape, scaling.mean, scaling.std))
    # The weight decay is that of the other methods without a learned prior.
    settings = {"method": "fixed-loss", "precision": 1e-4 * len(conditions.train[0])} | changes
    watch, laps = Stopwatch(), []
    state, resolved = start_weights(conditions, augmentation, conditions.train, **settings)
    for _ in epochs_of_weights(state, resolved, conditions.train):
        laps.append(watch.now)
    return InvariantModel(state.model.net, Compose(), samples=1), laps


def run_trivial_augment(conditions: Conditions) -> Found:
    """Train for as long as lila takes: a few epochs are timed first, which say how many epochs that is."""
    assert conditions.lila_seconds is not None, "lila runs first"
    watch = Stopwatch()
    _, laps = train_trivial(conditions, epochs=_PROBE_EPOCHS)
    per_epoch = (laps[-1] - laps[0]) / (len(laps) - 1)
    epochs = max(int((conditions.lila_seconds - watch.now) / per_epoch), 1)
    model, _ = train_trivial(conditions, epochs=epochs)
    watch.lap()
    scores = conditions.scores(model)
    return Found(scores["accuracy"], scores["log_likelihood"], watch.seconds, details={"epochs": epochs})
