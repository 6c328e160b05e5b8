"""Write what runs learned as one HTML file that opens from disk.

It says what was learned and how sure that is, shows your images under the learned transformations with a
slider for each range, the evidence, calibration, results by class, and what to do next; several runs
side by side.
"""

import argparse
import sys
from pathlib import Path

from lila._util.shell import printable
from lila.cli.options import add_images_option, add_own_code_options, own_code, takes_folder, takes_path

EXAMPLES = """examples:
  lila report runs/first
  lila report runs/first runs/second --out compared.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila report`."""
    takes_folder(parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run"))
    takes_path(
        parser.add_argument("--out", type=Path, metavar="FILE", default=Path("report.html"), help="[report.html]")
    )
    parser.add_argument("--title", help="of the page")
    add_images_option(parser)
    add_own_code_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run `lila report`."""
    from lila.results.report import sheet_of_folder, write_report

    own, named_paths = own_code(arguments), arguments.with_images
    sheets = [sheet_of_folder(folder, own, named_paths=named_paths) for folder in arguments.runs]
    for folder, sheet in zip(arguments.runs, sheets, strict=True):
        if sheet.without_images is not None:
            print(printable(f"lila: {folder} is shown without images: {sheet.without_images}"), file=sys.stderr)
    write_report(sheets, arguments.out, arguments.title)
    print(f"The report is {arguments.out}: open it in a browser.")
    return 0
