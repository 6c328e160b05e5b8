"""The ranges, and the terms of the evidence, over the epochs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from lila.results.plots.style import COLOURS, INK, empty_axes, plain_axes


def plot_trajectories(
    axes: "Axes",
    history: Sequence[Mapping[str, Any]],
    truth: Mapping[str, float] | None = None,
    labels: bool = True,
    top: float | None = None,
) -> None:
    """Draw the range of each generator over the epochs, and the true ones dashed if they are known.

    Args:
        axes: to draw on.
        history: of a run.
        truth: the ranges of the data by generator.
        labels: whether to write the generators' names beside the ends of their lines.
        top: where the vertical axis ends, for pictures side by side; chosen by what is drawn if None.
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
        colour = COLOURS[which[0] % len(COLOURS)] if len(which) == 1 else INK
        axes.axhline(value, ls=(0, (4, 3)), lw=1.2, c=colour, alpha=0.7, zorder=2)
    top = axes.get_ylim()[1] if top is None else top
    axes.set_ylim(-0.03 * top, top)  # lines that rest at zero stay visible
    if labels:
        _label_ends(axes, epochs[-1], ends)
    axes.set(xlabel="epoch", ylabel="range (radians, half sides, log-scale)", xlim=_limits(epochs))
    plain_axes(axes)


def plot_evidence(axes: "Axes", history: Sequence[Mapping[str, Any]]) -> None:
    """Draw the evidence over the epochs that had a hyper-step, and the two parts between which it trades off.

    These are the fit, which is the log-likelihood, and the complexity, which is log p(theta) - 1/2 log|H / 2 pi|; the
    two terms of the latter are large and nearly cancel.

    Args:
        axes: to draw on.
        history: of a run.
    """
    known = [record for record in history if record.get("evidence")]
    if not known:
        axes.annotate("no hyper-step was made", (0.5, 0.5), xycoords="axes fraction", ha="center", color=INK)
        empty_axes(axes)
        return
    epochs = [record["epoch"] for record in known]
    totals, fits = ([record["evidence"][name] / 1000 for record in known] for name in ("value", "log_likelihood"))
    complexity = [total - fit for total, fit in zip(totals, fits, strict=True)]  # weight penalty and Occam factor
    parts = {"evidence": totals, "fit": fits, "complexity": complexity}
    colours = (INK, COLOURS[0], COLOURS[2])
    ends = {}
    for (name, values), colour in zip(parts.items(), colours, strict=True):
        axes.plot(epochs, values, c=colour, lw=1.8, marker="o" if len(known) == 1 else None)
        ends[name] = values[-1]
    _label_ends(axes, epochs[-1], ends, colours)
    axes.set(xlabel="epoch", ylabel="thousand nats", xlim=_limits(epochs))
    plain_axes(axes)


def _limits(epochs: Sequence[float]) -> tuple[float, float]:
    """Of the horizontal axis; a single epoch gets some room."""
    return (epochs[0], epochs[-1]) if len(epochs) > 1 else (epochs[0] - 0.5, epochs[0] + 0.5)


def _label_ends(axes: "Axes", at: float, ends: Mapping[str, float], colours: Sequence[str] = COLOURS) -> None:
    """Write each name beside the end of its line, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    shown = {name: min(end, high) for name, end in ends.items()}  # a line may leave the picture at its top
    step = (high - low) / 11
    order = sorted(shown, key=lambda name: shown[name])
    places: list[float] = []
    for name in order:
        places.append(max(shown[name], places[-1] + step) if places else shown[name])
    for i in reversed(range(len(places))):  # what was pushed out at the top comes down again
        places[i] = min(places[i], high if i == len(places) - 1 else places[i + 1] - step)
    for name, placed in zip(order, places, strict=True):
        axes.annotate(
            name,
            (at, shown[name]),
            xytext=(1.06, (placed - low) / (high - low)),
            textcoords="axes fraction",
            color=INK,  # as not every colour of a line is readable as that of a text
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[list(ends).index(name) % len(colours)],
                "lw": 1.4,
                "ls": ":",  # so that it is not taken for a part of the line
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )
