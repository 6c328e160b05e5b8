"""Colours, figures and files, the same for all pictures."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lila.errors import LilaError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#009e73", "#8a9a00", "#cc79a7")
"""Colours of lines that colour-blind readers can tell apart, on a light and on a dark background."""
INK = "#444444"
"""The colour of texts and arrows."""


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a width and height in inches, with room for its labels."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LilaError("Pictures need matplotlib: pip install 'lila-torch[plots]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", where: Path | IO[bytes], kind: str, **options: Any) -> None:
    """Write a figure as "svg", "png" or "pdf"; the same figure gives the same bytes."""
    from matplotlib import rc_context

    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "lila"}):
        figure.savefig(where, format=kind, metadata=dates.get(kind), **options)


def plain_axes(axes: "Axes") -> None:
    """Remove the top and the right border."""
    axes.spines[["top", "right"]].set_visible(False)


def empty_axes(axes: "Axes") -> None:
    """Remove the ticks and the borders."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
