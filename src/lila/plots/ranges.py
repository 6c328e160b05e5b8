"""The learned ranges over the epochs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#009e73", "#8a9a00", "#cc79a7")  # told apart by colour-blind readers too
_INK = "#444444"


def plot_ranges(axes: "Axes", history: Sequence[Mapping[str, Any]], truth: Mapping[str, float] | None = None) -> None:
    """Draw the range of each generator over the epochs, and the true ones dashed if they are known.

    Args:
        axes: to draw on.
        history: of a run.
        truth: the ranges of the data by generator.
    """
    epochs = [record["epoch"] for record in history]
    ends: dict[str, float] = {}
    for i, name in enumerate(history[0]["ranges"]):
        values = [record["ranges"][name] for record in history]
        axes.plot(epochs, values, c=COLOURS[i % len(COLOURS)], lw=1.8, zorder=3)
        ends[name] = values[-1]
    dashed: dict[float, list[int]] = {}
    for i, name in enumerate(ends):
        if truth is not None:
            dashed.setdefault(truth.get(name, 0.0), []).append(i)
    for value, which in dashed.items():
        colour = COLOURS[which[0] % len(COLOURS)] if len(which) == 1 else _INK
        axes.axhline(value, ls=(0, (4, 3)), lw=1.2, c=colour, alpha=0.7, zorder=2)
    axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])  # lines that rest at zero stay visible
    _label_ends(axes, epochs[-1], ends)
    axes.set(xlabel="epoch", ylabel="range (radians, half sides, log-scale)", xlim=(epochs[0], epochs[-1]))
    axes.spines[["top", "right"]].set_visible(False)


def _label_ends(axes: "Axes", at: float, ends: Mapping[str, float]) -> None:
    """Write each name beside the end of its line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    step = (high - low) / 16
    placed = low - step
    order = sorted(ends, key=lambda name: ends[name])
    for name in order:
        placed = max(ends[name], placed + step)
        axes.annotate(
            name,
            (at, ends[name]),
            xytext=(1.03, (placed - low) / (high - low)),
            textcoords="axes fraction",
            color=COLOURS[list(ends).index(name) % len(COLOURS)],
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
