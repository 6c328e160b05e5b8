"""Links from a page to a file that is no page, such as `../src/lila/fit.py`, become links to the repository.

On GitHub such links work as they stand. A link to a file that does not exist is a warning.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_LOG = logging.getLogger(__name__)


def _with_links_to_repository(app: Sphinx, page: str, source: list[str]) -> None:
    docs = Path(app.srcdir).resolve()
    folder = (docs / page).parent

    def replaced(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            _LOG.warning("%s links to %s, which does not exist", page, link[1], location=page)
        kind = "tree" if target.is_dir() else "blob"
        path = target.relative_to(docs.parent).as_posix()
        return f"]({app.config.repository_url}/{kind}/main/{path}{link[2] or ''})"

    source[0] = _LINK.sub(replaced, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the address of the repository, and replace the links when a page is read."""
    app.add_config_value("repository_url", "", "env", types=str)
    app.connect("source-read", _with_links_to_repository)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
