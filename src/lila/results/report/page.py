"""The page of a report: the parts of all runs in one template."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lila._util.files import replaced
from lila.results.report.compared import compared_parts
from lila.results.report.parts import run_parts
from lila.results.report.sheet import Sheet

_SCRIPTS = ("transform.js", "explorer.js", "strips.js", "copy.js")  # in this order


def write_report(
    sheets: Sequence[Sheet], path: str | Path, title: str | None = None, experiment: Mapping[str, Any] | None = None
) -> None:
    """Write a report as one HTML file.

    Args:
        sheets: the runs to show, side by side.
        path: of the file.
        title: of the page.
        experiment: what the template shows of an experiment that the runs belong to.
    """
    templates = Path(__file__).parent / "templates"
    script = "".join((templates / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    html = (
        page_templates()
        .get_template("report.html")
        .render(
            title=title or (sheets[0].title if len(sheets) == 1 else "lila: runs side by side"),
            runs=[run_parts(sheet) for sheet in sheets],
            compared=compared_parts(sheets) if len(sheets) > 1 else None,
            experiment=experiment,
            script=Markup(script),  # our own code, which holds nothing of a run
            policy=_policy(script),
            version=version("lila-torch"),
        )
    )
    with replaced(Path(path)) as temporary:
        temporary.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")


def page_templates(*packages: str) -> Environment:
    """Return the templates of reports, with their style and macros, and those of other packages.

    Args:
        *packages: names of packages that have a folder `templates`.
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "lila.results.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _policy(script: str) -> str:
    """Return the policy by which a browser loads nothing from outside and runs this script alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
