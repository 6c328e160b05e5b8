"""Pictures that a page holds in itself: drawings as SVG in the colour of the text, images as PNG."""

import base64
import io
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from markupsafe import escape
from PIL import Image
from torch import Tensor

from lila.augment.noise import Draw
from lila.results.plots.series import HEIGHT, WIDTH, draw_series
from lila.results.plots.style import INK, new_figure, save
from lila.results.report.sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAMES = 21
"""Positions of the slider; the middle one is the image itself."""
_DRAWS = 7
_BLACK = "#000000"


def drawing(draw: "Callable[[Axes], None]", width: float, height: float, text: str) -> str:
    """Return one axes as an SVG."""
    figure = new_figure(width, height)
    draw(figure.subplots())
    return svg(figure, text)


def svg(figure: "Figure", text: str) -> str:
    """Return a figure as an SVG element, with what it shows as a text for those who cannot see it."""
    written = io.BytesIO()
    save(figure, written, "svg", transparent=True)
    element = written.getvalue().decode()
    element = element[element.index("<svg") :].replace(INK, "currentColor").replace(_BLACK, "currentColor")
    return element.replace("<svg", f'<svg role="img" fill="currentColor" aria-label="{escape(text)}"', 1)


def strip(sheet: Sheet, direction: Tensor) -> str:
    """Return frames side by side, a row per image, while the noise goes from -1 to 1 times a direction (k,)."""
    assert sheet.images is not None
    noise = torch.linspace(-1, 1, FRAMES)[:, None] * direction.to("cpu", torch.float32)
    return _tiles(sheet, noise.expand(len(sheet.images), -1, -1))


def draws(sheet: Sheet) -> str:
    """Frames side by side, a row per image: random draws of the whole distribution; the middle one is the image."""
    assert sheet.images is not None
    index = torch.arange(len(sheet.images))
    noise = Draw(0).uniform(index, (FRAMES, sheet.augmentation.noise_dim), torch.float32)
    noise[:, FRAMES // 2] = 0
    return _tiles(sheet, noise)


def before_and_after(sheet: Sheet) -> str:
    """Return a picture of each image beside some draws of the learned distribution."""
    assert sheet.images is not None
    index = torch.arange(len(sheet.images))
    noise = Draw(1).uniform(index, (_DRAWS + 1, sheet.augmentation.noise_dim), torch.float32)
    noise[:, 0] = 0
    return _tiles(sheet, noise, gap=2)


def tile_size(sheet: Sheet) -> tuple[int, int]:
    """Return the height and width of the picture of one input, in pixels."""
    return (HEIGHT, WIDTH) if sheet.of_series else (sheet.shape[-2], sheet.shape[-1])


def _with_opacity(sheet: Sheet, inputs: Tensor) -> Tensor:
    """Return pictures of inputs of the network, with red, green, blue and opacity in [0, 1]: shape (n, 4, h, w)."""
    if sheet.of_series:
        assert sheet.images is not None
        low, high = sheet.undone(sheet.images).aminmax()
        return draw_series(sheet.undone(inputs), float(low), float(high))
    shown = sheet.undone(inputs)
    return torch.cat([shown.expand(-1, 3, -1, -1), torch.ones_like(shown[:, :1])], dim=1)


@torch.no_grad()
def _tiles(sheet: Sheet, noise: Tensor, gap: int = 0) -> str:
    """Return images (rows) under transformations (columns) as a data URL."""
    assert sheet.images is not None
    augmentation = deepcopy(sheet.augmentation).to("cpu", torch.float32)
    views = augmentation(sheet.images.float(), noise)  # (n, s, *shape)
    shown = _with_opacity(sheet, views.flatten(0, 1)).unflatten(0, views.shape[:2])
    shown = F.pad(shown, (0, gap, 0, gap))  # nothing, so that the page shows through
    tiles = (shown * 255).round().byte().permute(0, 3, 1, 4, 2)  # (n, h, s, w, c)
    image = Image.fromarray(tiles.flatten(2, 3).flatten(0, 1).numpy())
    written = io.BytesIO()
    image.save(written, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
