"""Reports: one HTML file that holds everything it shows, needs no network, and opens from disk."""

from lila.results.report.page import write_report
from lila.results.report.sheet import Sheet, sheet_of_folder

__all__ = ["Sheet", "sheet_of_folder", "write_report"]
