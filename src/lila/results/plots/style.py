"""What all pictures have in common."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lila.errors import LilaError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#009e73", "#8a9a00", "#cc79a7")
"""Told apart by colour-blind readers too, as lines on a light and on a dark ground; texts are in `INK`."""
INK = "#444444"


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches, with room for its labels."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LilaError("Pictures need matplotlib: pip install 'lila-torch[plots]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", where: Path | IO[bytes], kind: str, **options: Any) -> None:
    """Write a figure as "svg", "png" or "pdf": the same bytes for the same figure."""
    from matplotlib import rc_context

    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "lila"}):
        figure.savefig(where, format=kind, metadata=dates.get(kind), **options)


def plain_axes(axes: "Axes") -> None:
    """Take away the lines that mean nothing."""
    axes.spines[["top", "right"]].set_visible(False)


def empty_axes(axes: "Axes") -> None:
    """Take away everything but the picture."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
