"""Pictures of runs, for notebooks, the command line and reports, by matplotlib (`pip install lila-torch[plots]`).

Each function draws on axes that are given; `draw_run` makes a whole picture of a run.
"""

from lila.results.plots.figure import draw_run
from lila.results.plots.flow import plot_flow
from lila.results.plots.plane import plot_plane
from lila.results.plots.ranges import plot_ranges
from lila.results.plots.samples import plot_samples
from lila.results.plots.trajectories import plot_evidence, plot_trajectories

__all__ = [
    "draw_run",
    "plot_evidence",
    "plot_flow",
    "plot_plane",
    "plot_ranges",
    "plot_samples",
    "plot_trajectories",
]
