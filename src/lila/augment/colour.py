"""Changes of colour: brightness, contrast, saturation, hue, gamma, and the gains of the channels.

Pixels v in [0, 1] become, with all coefficients c = r eps of one view,

    v' = A u + t,    u = v^gamma (channel by channel),    gamma = exp(c_gamma),
    A = (1 + c_brightness) (1 + c_contrast) S(c_saturation) R(c_hue) diag(1 + c_red, 1 + c_green, 1 + c_blue),

where R turns colours about the grey axis by the angle c_hue, and S stretches them away from their grey value (the luma
w v of Rec. 601) by the factor 1 + c_saturation. The contrast stretches about the mean grey value of the image, which is
what t is for. Values are not clipped to [0, 1], so that everything is differentiable and the identity at zero.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log, pi
from typing import Any

import torch
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila.augment.base import Exporter, InputFormat, Shape
from lila.augment.export.colour import COLOUR_LIBRARIES, colour_code
from lila.augment.lie import degrees, scale_factor
from lila.augment.named import NamedRanges, factor
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range
from lila.errors import ArgumentError, DataError

LUMA = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in the grey value of a pixel (Rec. 601)."""

COLOUR: tuple[Range, ...] = (
    Range("brightness", limit=1.0, unit=factor),
    Range("contrast", limit=1.0, unit=factor),
    Range("saturation", limit=1.0, unit=factor),
    Range("hue", unit=degrees, limit=pi, closes=True),
    Range("gamma", unit=scale_factor, plausible=log(8)),
    Range("red", limit=1.0, unit=factor),
    Range("green", limit=1.0, unit=factor),
    Range("blue", limit=1.0, unit=factor),
)
"""All ranges: c of the factors 1 + c for brightness, contrast, saturation and channels, the logarithm of the exponent
gamma, and the angle of the hue."""

_DEFAULT = ("brightness", "contrast", "saturation", "hue", "gamma")
_GREY = ("brightness", "contrast", "gamma")  # those that a grey image has too
_CHANNELS = ("red", "green", "blue")
_DARKEST = 1e-6  # below it the slope of v^gamma is that at this value, so that black stays black and has a gradient


@suggests_arguments
class Colour(NamedRanges):
    """Changes of the colours of images: brightness, contrast, saturation, hue, gamma, and gains of the channels.

    The changes are defined for pixels in [0, 1]. Inputs that were scaled by x = (v - mean) / std are scaled back first,
    and again afterwards. `lila train` sets the mean and the deviation of the data by itself.

    Args:
        generators: the names of the ranges to use, of `COLOUR`; brightness, contrast, saturation, hue and gamma if
            None. The gains "red", "green" and "blue" together include the brightness.
        init: the range from which each starts; 0 if None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
        mean: the mean of each channel that was subtracted from pixels in [0, 1]; one number for all channels.
        std: the number by which each channel was divided.
    """

    unit = "factor - 1, radians, log-exponent"

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
        *,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
    ) -> None:
        super().__init__(COLOUR, _DEFAULT if generators is None else generators, init, parameterisation)
        self.mean, self.std = (_channels(value) for value in (mean, std))
        if not all(value > 0 for value in self.std):
            raise ArgumentError(f"The deviations by which pixels were divided must be positive, but are {self.std}.")

    def adapt(self, inputs: InputFormat) -> None:
        self.mean, self.std = tuple(inputs.mean), tuple(inputs.std)

    def arguments(self) -> dict[str, Any] | None:
        named = self.named_arguments()
        return None if named is None else named | {"mean": list(self.mean), "std": list(self.std)}

    def check_shape(self, shape: Shape) -> None:
        coloured = [name for name in self.names if name not in _GREY]
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise DataError(
                f"Colour changes images of shape (channels, height, width) with 1 or 3 channels, but its inputs have "
                f"shape {shape}."
            )
        if shape[0] == 1 and coloured:
            raise DataError(
                f"Grey images have no {' or '.join(coloured)}. Use generators={[n for n in self.names if n in _GREY]} "
                "for them."
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, shape[0]):
                raise DataError(f"Colour was given {len(values)} values of {name} for images of {shape[0]} channels.")

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        b, s, channels = x.shape[0], noise.shape[1], x.shape[1]
        mean, std = (x.new_tensor(values).expand(channels) for values in (self.mean, self.std))
        change = self.changes(noise, x)
        v = x.flatten(2) * std[:, None] + mean[:, None]  # (b, c, pixels), in [0, 1]
        A, t = _colour_map(change, v.mean(2), noise.new_zeros(b, s).to(x.dtype))
        A, t = A * (1 / std)[:, None], (t - mean) / std  # back to the scale of the inputs
        if "gamma" not in change:
            views = torch.baddbmm(t.reshape(b, -1, 1), A.reshape(b, -1, channels), v)  # (b, s c, pixels)
            return views.reshape(b, s, *x.shape[1:])
        exponent = change["gamma"].expm1()  # gamma - 1
        u = v.unsqueeze(1) * (exponent[..., None, None] * v.abs().clamp_min(_DARKEST).log().unsqueeze(1)).exp()
        views = torch.baddbmm(t.reshape(b * s, -1, 1), A.flatten(0, 1), u.flatten(0, 1))
        return views.reshape(b, s, *x.shape[1:])

    def exporters(self) -> Mapping[str, Exporter]:
        return {library: partial(colour_code, library, dict(self.ranges)) for library in COLOUR_LIBRARIES}


def _colour_map(change: Mapping[str, Tensor], mean: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    """Return the map u -> A u + t of each view.

    Args:
        change: the coefficients by name, each of shape (b, s).
        mean: the mean colour of each image, shape (b, c).
        zero: zeros of shape (b, s).

    Returns:
        A of shape (b, s, c, c) and t of shape (b, s, c).
    """
    channels = mean.shape[1]
    eye = torch.eye(channels, dtype=mean.dtype, device=mean.device)
    A = eye
    if channels == 3:
        luma = mean.new_tensor(LUMA)
        if any(name in change for name in _CHANNELS):
            A = torch.stack([change.get(name, zero) for name in _CHANNELS], dim=-1).add(1).diag_embed()
        if "hue" in change:
            A = turn_hues(change["hue"]) @ A
        if "saturation" in change:
            grey = luma.expand(3, 3)  # takes a colour to its grey value in each channel
            A = (eye + change["saturation"][..., None, None] * (eye - grey)) @ A
    else:
        luma = torch.ones_like(mean[0])
    A = (1 + change.get("brightness", zero))[..., None, None] * A
    stretch = 1 + change.get("contrast", zero)
    pivot = (A @ mean[:, None, :, None]).squeeze(-1) @ luma  # the grey value of the mean colour, (b, s)
    t = ((1 - stretch) * pivot).unsqueeze(-1).expand(*pivot.shape, channels)
    return stretch[..., None, None] * A, t


def turn_hues(angle: Tensor) -> Tensor:
    """Return rotations of colours about the grey axis (1, 1, 1), shape (..., 3, 3); 120 degrees take red to green."""
    # cos I + (1 - cos) / 3 (all ones) + sin / sqrt(3) K, where K v is the cross product of (1, 1, 1) and v
    K = angle.new_tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / 3**0.5
    c, s = angle.cos()[..., None, None], angle.sin()[..., None, None]
    return c * torch.eye(3, dtype=angle.dtype, device=angle.device) + (1 - c) / 3 + s * K


def _channels(value: float | Sequence[float]) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, (int, float)) else tuple(float(entry) for entry in value)
