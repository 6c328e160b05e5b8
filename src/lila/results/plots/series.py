"""Time series as little pictures: a line per channel."""

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from lila.results.plots.style import COLOURS, INK

HEIGHT, WIDTH = 64, 112
"""The pixels of a picture of a series."""
_FINER = 3  # pictures are drawn larger by this factor and then reduced, which makes lines smooth
_MARGIN = 0.06  # of the height, above and below


def draw_series(series: Tensor, low: float, high: float) -> Tensor:
    """Draw time series as pictures on a transparent ground.

    Args:
        series: the values, shape (n, c, t).
        low: the value at the bottom of the picture.
        high: the value at its top.

    Returns:
        Red, green, blue and opacity in [0, 1], shape (n, 4, height, width).
    """
    scale = 1 / max(high - low, torch.finfo(series.dtype).tiny)
    across = torch.linspace(0, WIDTH * _FINER - 1, series.shape[-1], dtype=torch.float64).tolist()
    down = ((high - series) * scale).clamp(-1, 2) * (1 - 2 * _MARGIN) + _MARGIN
    colours = (INK,) if series.shape[1] == 1 else COLOURS
    drawn = []
    for channels in (down * HEIGHT * _FINER).tolist():
        picture = Image.new("RGBA", (WIDTH * _FINER, HEIGHT * _FINER))
        pen = ImageDraw.Draw(picture)
        for i, channel in enumerate(channels):
            pen.line(list(zip(across, channel, strict=True)), fill=colours[i % len(colours)], width=_FINER + 1)
        drawn.append(torch.frombuffer(bytearray(picture.reduce(_FINER).tobytes()), dtype=torch.uint8))
    return torch.stack(drawn).view(-1, HEIGHT, WIDTH, 4).permute(0, 3, 1, 2).float() / 255
