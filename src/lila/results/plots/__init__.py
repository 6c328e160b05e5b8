"""Pictures of runs for notebooks, the command line and reports; they need matplotlib (`lila-torch[plots]`).

Each `plot_` function draws on given axes; `draw_run` writes a whole picture of a run to a file.
"""

from lila.results.plots.calibration import plot_calibration
from lila.results.plots.figure import draw_run
from lila.results.plots.flow import plot_flow
from lila.results.plots.plane import plot_plane
from lila.results.plots.ranges import plot_ranges
from lila.results.plots.samples import plot_samples
from lila.results.plots.trajectories import plot_evidence, plot_trajectories

__all__ = [
    "draw_run",
    "plot_calibration",
    "plot_evidence",
    "plot_flow",
    "plot_plane",
    "plot_ranges",
    "plot_samples",
    "plot_trajectories",
]
