"""Reliability diagrams: how often predictions are right that are made with some confidence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lila.model.metrics import CalibrationBin
from lila.results.plots.style import COLOURS, INK, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST = 130.0  # area of the largest point, in square points


def plot_calibration(axes: "Axes", bins: Sequence[CalibrationBin]) -> None:
    """Draw the accuracy of predictions over their confidence, with the line on which a calibrated network lies.

    The area of a point is the share of the predictions; its bar is the standard error of their accuracy.

    Args:
        axes: the axes to draw on.
        bins: predictions by confidence.
    """
    axes.plot([0, 1], [0, 1], c=INK, lw=1.2, ls=(0, (4, 3)), alpha=0.7, zorder=2)
    most = max(one.count for one in bins)
    for one in bins:
        low, high = _interval(one)
        axes.plot([one.confidence] * 2, [low, high], c=COLOURS[0], lw=1.2, alpha=0.8, zorder=3)
        axes.plot([one.confidence] * 2, [one.accuracy, one.confidence], c=COLOURS[2], lw=2.4, alpha=0.35, zorder=2)
    sizes = [max(_LARGEST * one.count / most, 5.0) for one in bins]
    axes.scatter([one.confidence for one in bins], [one.accuracy for one in bins], s=sizes, c=COLOURS[0], zorder=4)
    axes.plot([one.confidence for one in bins], [one.accuracy for one in bins], c=COLOURS[0], lw=1.0, alpha=0.5)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="share that is right")
    plain_axes(axes)


def _interval(one: CalibrationBin) -> tuple[float, float]:
    """Return the accuracy plus and minus its standard error, which is that of Wilson's interval, never 0."""
    n, p = one.count, one.accuracy
    middle = (p + 1 / (2 * n)) / (1 + 1 / n)
    half = (p * (1 - p) / n + 1 / (4 * n * n)) ** 0.5 / (1 + 1 / n)
    return middle - half, middle + half
