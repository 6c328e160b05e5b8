"""Curves of the ranges and of the evidence over the epochs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from lila.results.plots.style import COLOURS, INK, empty_axes, plain_axes
from lila.training.history import EpochRecord


def plot_trajectories(
    axes: "Axes",
    history: Sequence[EpochRecord],
    truth: Mapping[str, float] | None = None,
    *,
    labels: bool = True,
    top: float | None = None,
    unit: str = "",
) -> None:
    """Draw each range over the epochs, with the true ranges as dashed lines if they are known.

    Args:
        axes: the axes to draw on.
        history: the records of a run's epochs.
        truth: the ranges by which the data was transformed, by name; ranges that are left out are 0.
        labels: whether to write the names of the ranges beside the ends of their lines.
        top: the upper end of the vertical axis, for pictures side by side; it follows from the ranges if None.
        unit: the unit of the ranges, `Augmentation.unit`.
    """
    epochs = [record.epoch for record in history]
    ends: dict[str, float] = {}
    for i, name in enumerate(history[0].ranges):
        values = [record.ranges[name] for record in history]
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
    axes.set(xlabel="epoch", ylabel=f"range ({unit})" if unit else "range", xlim=_limits(epochs))
    plain_axes(axes)


def plot_evidence(axes: "Axes", history: Sequence[EpochRecord]) -> None:
    """Draw the evidence, the fit and the complexity over the epochs that had a hyper-step.

    The evidence is the sum of the fit, which is the log-likelihood, and the complexity, which is log p(theta) -
    1/2 log|H / 2 pi|. The two terms of the complexity are large and nearly cancel, so they are drawn as one.

    Args:
        axes: the axes to draw on.
        history: the records of a run's epochs.
    """
    known = [(record.epoch, record.evidence) for record in history if record.evidence is not None]
    if not known:
        axes.annotate("no hyper-step was made", (0.5, 0.5), xycoords="axes fraction", ha="center", color=INK)
        empty_axes(axes)
        return
    epochs = [epoch for epoch, _ in known]
    totals, fits = ([getattr(terms, name) for _, terms in known] for name in ("value", "log_likelihood"))
    complexity = [total - fit for total, fit in zip(totals, fits, strict=True)]  # weight penalty and Occam factor
    parts = {"evidence": totals, "fit": fits, "complexity": complexity}
    colours = (INK, COLOURS[0], COLOURS[2])
    ends = {}
    for (name, values), colour in zip(parts.items(), colours, strict=True):
        axes.plot(epochs, values, c=colour, lw=1.8, marker="o" if len(known) == 1 else None)
        ends[name] = values[-1]
    _label_ends(axes, epochs[-1], ends, colours)
    axes.set(xlabel="epoch", ylabel="nats, for all training data", xlim=_limits(epochs))
    axes.yaxis.set_major_formatter("{x:,.10g}")  # as the tables write it: -12,000
    plain_axes(axes)


def _limits(epochs: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the horizontal axis, with some room around a single epoch."""
    return (epochs[0], epochs[-1]) if len(epochs) > 1 else (epochs[0] - 0.5, epochs[0] + 0.5)


def _label_ends(axes: "Axes", at: float, ends: Mapping[str, float], colours: Sequence[str] = COLOURS) -> None:
    """Write each name beside the end of its line, and move names apart that would overlap."""
    low, high = axes.get_ylim()
    shown = {name: min(end, high) for name, end in ends.items()}  # a line may leave the picture at the top
    step = (high - low) / 11
    order = sorted(shown, key=lambda name: shown[name])
    places: list[float] = []
    for name in order:
        places.append(max(shown[name], places[-1] + step) if places else shown[name])
    for i in reversed(range(len(places))):  # names that were pushed beyond the top come down again
        places[i] = min(places[i], high if i == len(places) - 1 else places[i + 1] - step)
    for name, placed in zip(order, places, strict=True):
        axes.annotate(
            name,
            (at, shown[name]),
            xytext=(1.06, (placed - low) / (high - low)),
            textcoords="axes fraction",
            color=INK,  # as some colours of lines are too light for a text
            va="center",
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colours[list(ends).index(name) % len(colours)],
                "lw": 1.4,
                "ls": ":",  # so that it is not mistaken for a part of the curve
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )
