"""Reports: one HTML file that holds everything it shows, needs no network, and opens from disk."""

from importlib.util import find_spec

from lila.errors import LilaError

if find_spec("jinja2") is None:
    raise LilaError("A report needs Jinja2: pip install 'lila-torch[plots]'.")

from lila.results.report.page import write_report
from lila.results.report.sheet import Sheet, sheet_of_folder

__all__ = ["Sheet", "sheet_of_folder", "write_report"]
