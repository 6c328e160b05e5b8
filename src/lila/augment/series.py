"""Changes of time series: shift, dilation, smooth warp of time; amplitude and offset of the values.

Time u covers the series by [-1, 1] from edge to edge; the values lie in the middles of equal intervals. With all
coefficients c = r eps of one view,

    x'(u) = (1 + c_amplitude) x(exp(-c_dilation) (u - c_shift) - w(u)) + c_offset,
    w(u) = sum_k c_warp,k / k sin(k pi (u + 1) / 2),    k = 1, ..., 3,

so that a warp leaves the ends in place. Series are resampled linearly.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import log, pi
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lila._util.arguments import suggests_arguments
from lila._util.choices import choose
from lila.augment.base import Exporter, Shape
from lila.augment.export.plain import ranges_code
from lila.augment.lie import scale_factor
from lila.augment.named import NamedRanges, factor
from lila.augment.parameterisation import Parameterisation
from lila.augment.ranges import Range
from lila.augment.warp import Padding
from lila.errors import DataError

MODES = 3
"""The number of sine waves of a smooth warp."""


def steps(value: float, shape: Shape) -> str:
    """Write a time in half lengths of the series as a number of its values."""
    return f"±{value * shape[-1] / 2:.2f} steps"


SERIES: tuple[Range, ...] = (
    Range("shift", unit=steps, plausible=0.75),
    Range("dilation", unit=scale_factor, plausible=log(4)),
    Range("amplitude", limit=1.0, unit=factor),
    Range("offset"),
    Range("warp", unit=steps, limit=2 / (pi * MODES)),
)
"""All ranges. Shift and warp are in half lengths of the series, the dilation is the logarithm of a factor, the
amplitude is c of a factor 1 + c, and the offset has the unit of the values. Within the limit of the warp, time does not
run backwards, unless a series is dilated too."""

_OF_TIME = ("shift", "dilation", "warp")


@suggests_arguments
class TimeSeries(NamedRanges):
    """Changes of time series: shift, dilation, smooth warp of time, amplitude and offset; all channels alike.

    Args:
        generators: the names of the ranges to use, of `SERIES`; all five if None.
        padding: what lies before and after a series: "border", its first and last value; "zeros"; or "reflection".
        init: the range from which each starts; 0 if None.
        parameterisation: how a range is written as eta: "identity", "softplus", "inverse", or one of your own.
    """

    unit = "half lengths, log-scale, factor - 1, values"

    def __init__(
        self,
        generators: Sequence[str] | None = None,
        padding: str | Padding = "border",
        init: float | Sequence[float] | None = None,
        parameterisation: str | Parameterisation = "identity",
    ) -> None:
        chosen = [range_.name for range_ in SERIES] if generators is None else generators
        super().__init__(SERIES, chosen, init, parameterisation, noises={"warp": MODES})
        self.padding = choose(Padding, padding, "padding")

    def arguments(self) -> dict[str, Any] | None:
        named = self.named_arguments()
        return None if named is None else named | {"padding": self.padding.value}

    def check_shape(self, shape: Shape) -> None:
        if len(shape) != 2 or shape[1] < 2:
            raise DataError(
                f"TimeSeries changes series of shape (channels, time) with at least 2 values in time, but its inputs "
                f"have shape {shape}. Series of one channel need a channel dimension: x.unsqueeze(1)."
            )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        self.check_shape(tuple(x.shape[1:]))
        self.check_noise(x, noise)
        change = self.changes(noise, x)
        views = x.unsqueeze(1).expand(-1, noise.shape[1], -1, -1)
        if any(name in change for name in _OF_TIME):
            views = resample(x, _source_times(change, x.shape[-1]), self.padding)
        if "amplitude" not in change and "offset" not in change:
            return views
        zero = torch.zeros_like(noise[..., 0], dtype=x.dtype)
        gain, offset = 1 + change.get("amplitude", zero), change.get("offset", zero)
        return torch.addcmul(offset[..., None, None], views, gain[..., None, None])  # in one pass over the values

    def exporters(self) -> Mapping[str, Exporter]:
        return {"torch": partial(ranges_code, "series-torch", dict(self.ranges), padding=self.padding.value)}


def _source_times(change: Mapping[str, Tensor], length: int) -> Tensor:
    """Return the time from which each value of the views is taken, shape (b, s, t).

    Args:
        change: the coefficients by name, each of shape (b, s) but for the warp's (b, s, modes).
        length: the number of values of a series, t.
    """
    some = next(iter(change.values()))
    u = (2 * torch.arange(length, dtype=some.dtype, device=some.device) + 1) / length - 1
    times = u
    if "shift" in change:
        times = times - change["shift"].unsqueeze(-1)
    if "dilation" in change:
        times = times * (-change["dilation"]).exp().unsqueeze(-1)
    if "warp" in change:
        k = torch.arange(1, MODES + 1, dtype=u.dtype, device=u.device)[:, None]
        times = times - change["warp"] @ ((k * pi / 2 * (u + 1)).sin() / k)
    return times


def resample(x: Tensor, times: Tensor, padding: Padding) -> Tensor:
    """Interpolate series linearly.

    Args:
        x: the series, shape (b, c, t).
        times: the times at which to read each of them, shape (b, s, t').
        padding: what lies before -1 and after 1.

    Returns:
        The values, shape (b, s, c, t').
    """
    places = torch.stack([times, torch.zeros_like(times)], dim=-1)  # a series is an image of one row
    read = F.grid_sample(x.unsqueeze(2), places, mode="bilinear", padding_mode=padding.value, align_corners=False)
    return read.transpose(1, 2)
