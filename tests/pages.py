"""The Python of the documentation's pages: finding it, and running it as it stands."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from lila.augment import parameterisation
from lila.augment import registry as families
from lila.curvature import registry as structures
from lila.curvature.rules import registry as rules
from lila.data.formats import format as formats

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REGISTRIES = {
    families: "FAMILIES",
    parameterisation: "PARAMETERISATIONS",
    structures: "_STRUCTURES",
    rules: "_RULES",
    formats: "_FORMATS",
}
"""Where names that a page registers would stay, for tests that come later."""


def read(page: str) -> str:
    """The text of a page, whose path is relative to `docs`, or of the README."""
    return (ROOT if page == "README.md" else DOCS).joinpath(page).read_text()


def blocks(page: str, language: str = "python", title: str | None = None) -> list[str]:
    """The blocks of a page, or of one of its sections, in a language; cells of notebooks are blocks of Python."""
    text = read(page)
    if title is not None:
        text = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"^```(?:{language}|{{code-cell}} {language})\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [re.sub(r"\A(:\w+:.*\n)+\n", "", block) for block in found]  # tags of a cell


def run(page: str, *sources: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run blocks of a page one after the other, all of them if none is given, and return the names that they leave."""
    names = {} if names is None else names
    for number, block in enumerate(sources or blocks(page), start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    return names


@contextmanager
def registries_as_before() -> Iterator[None]:
    """What is registered inside is forgotten afterwards."""
    with ExitStack() as stack:
        for module, name in REGISTRIES.items():
            stack.enter_context(mock.patch.dict(getattr(module, name)))
        yield
