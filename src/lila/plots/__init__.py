"""Pictures of runs, for notebooks and for the command line; they need matplotlib (`pip install lila-torch[plots]`)."""

from lila.plots.figure import draw_run
from lila.plots.ranges import plot_ranges
from lila.plots.samples import plot_samples

__all__ = ["draw_run", "plot_ranges", "plot_samples"]
