"""Pictures that a page holds in itself: drawings as SVG in the colour of the text, images as PNG.

Families that the page's script does not know are shown by pictures that were drawn in advance: frames side by side,
through which a slider moves.
"""

import base64
import io
import re
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from markupsafe import escape
from PIL import Image
from torch import Tensor

from lila.augment.base import Shape
from lila.augment.noise import Draw
from lila.results.plots.series import HEIGHT, WIDTH, draw_series
from lila.results.plots.style import INK, new_figure, save
from lila.results.report.sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAMES = 21
"""Positions of the slider; the middle one is the image itself."""
_DRAWS, _ROWS = 7, 3  # random draws beside each of a few inputs
_MOST_SIDE = 96  # pixels of an image that is shown; larger ones are reduced
_BLACK = "#000000"


def drawing(draw: "Callable[[Axes], None]", width: float, height: float, text: str) -> str:
    """Return one axes as an SVG."""
    figure = new_figure(width, height)
    draw(figure.subplots())
    return svg(figure, text)


def svg(figure: "Figure", text: str) -> str:
    """Return a figure as an SVG element, with what it shows as a text for those who cannot see it."""
    from matplotlib import rc_context

    written = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}):  # texts that can be read, searched and copied
        save(figure, written, "svg", transparent=True)
    element = written.getvalue().decode()
    element = element[element.index("<svg") :].replace(INK, "currentColor").replace(_BLACK, "currentColor")
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', element))
    element = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", element)
    return element.replace("<svg", f'<svg role="img" fill="currentColor" aria-label="{escape(text)}"', 1)


def strip(sheet: Sheet, direction: Tensor) -> str:
    """Return frames side by side, a row per image, while the noise goes from -1 to 1 times a direction (k,)."""
    noise = torch.linspace(-1, 1, FRAMES)[:, None] * direction.to("cpu", torch.float32)
    return _tiles(sheet, noise.expand(len(few(sheet)), -1, -1))


def draws(sheet: Sheet) -> str:
    """Frames side by side, a row per image: random draws of the whole distribution; the middle one is the image."""
    index = torch.arange(len(few(sheet)))
    noise = Draw(0).uniform(index, (FRAMES, sheet.augmentation.noise_dim), torch.float32)
    noise[:, FRAMES // 2] = 0
    return _tiles(sheet, noise)


def before_and_after(sheet: Sheet) -> str:
    """Return a picture of each image beside some draws of the learned distribution."""
    index = torch.arange(len(few(sheet)))
    noise = Draw(1).uniform(index, (_DRAWS + 1, sheet.augmentation.noise_dim), torch.float32)
    noise[:, 0] = 0
    return _tiles(sheet, noise, gap=2)


def few(sheet: Sheet) -> Tensor:
    """Return a few of the inputs, far from each other in their order, as images of a folder come class by class."""
    assert sheet.images is not None
    step = -(-len(sheet.images) // _ROWS)
    return sheet.images[step // 2 :: step]


def data_url(images: Tensor) -> str:
    """Return images (n, c, h, w) in [0, 1], one below the other, as a data URL; grey ones take a third of the bytes."""
    pixels = (images * 255).round().byte().permute(0, 2, 3, 1).flatten(0, 1)  # (n h, w, c)
    return _png(Image.fromarray(pixels.squeeze(2).numpy()))


def shown_size(shape: Shape) -> tuple[int, int]:
    """Return the height and width in which an image is shown: its own, or smaller ones of the same proportions."""
    height, width = shape[-2:]
    factor = min(1.0, _MOST_SIDE / max(height, width))
    return max(1, round(height * factor)), max(1, round(width * factor))


def reduced(images: Tensor) -> Tensor:
    """Return images (n, c, h, w) in the size in which they are shown."""
    size = shown_size(tuple(images.shape))
    if size == tuple(images.shape[-2:]):
        return images
    return F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False).clamp(0, 1)


def tile_size(sheet: Sheet) -> tuple[int, int]:
    """Return the height and width of the picture of one input, in pixels."""
    return (HEIGHT, WIDTH) if sheet.of_series else shown_size(sheet.shape)


def _with_opacity(sheet: Sheet, inputs: Tensor) -> Tensor:
    """Return pictures of inputs of the network, with red, green, blue and opacity in [0, 1]: shape (n, 4, h, w)."""
    if sheet.of_series:
        assert sheet.images is not None
        low, high = sheet.undone(sheet.images).aminmax()
        return draw_series(sheet.undone(inputs), float(low), float(high))
    shown = reduced(sheet.undone(inputs))
    if shown.shape[1] not in (1, 3):
        shown = shown.mean(1, keepdim=True)  # of channels that are no colours
    return torch.cat([shown.expand(-1, 3, -1, -1), torch.ones_like(shown[:, :1])], dim=1)


@torch.no_grad()
def _tiles(sheet: Sheet, noise: Tensor, gap: int = 0) -> str:
    """Return images (rows) under transformations (columns) as a data URL."""
    augmentation = deepcopy(sheet.augmentation).to("cpu", torch.float32)
    views = augmentation(few(sheet).float(), noise)  # (n, s, *shape)
    shown = _with_opacity(sheet, views.flatten(0, 1)).unflatten(0, views.shape[:2])
    shown = F.pad(shown, (0, gap, 0, gap))  # nothing, so that the page shows through
    tiles = (shown * 255).round().byte().permute(0, 3, 1, 4, 2)  # (n, h, s, w, c)
    return _png(Image.fromarray(tiles.flatten(2, 3).flatten(0, 1).numpy()))


def _png(image: Image.Image) -> str:
    written = io.BytesIO()
    image.save(written, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
