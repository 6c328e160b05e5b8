"""Docstrings are plain text with code in backticks. What Sphinx would take for markup is quoted before."""

import re

from docutils import nodes
from sphinx.application import Sphinx

_CODE = re.compile(r"(`+)(.+?)\1")
_STARRED_ARGUMENT = re.compile(r"^\s*\*{1,2}\w+(\s*\(.*?\))?:")  # `**changes: ...`, which napoleon quotes itself


def quoted(line: str) -> str:
    """Return a line of plain text as reStructuredText, with `code` as code and every other sign as itself."""
    starred = _STARRED_ARGUMENT.match(line)
    head, rest = (line[: starred.end()], line[starred.end() :]) if starred else ("", line)
    parts, end = [], 0
    for code in _CODE.finditer(rest):
        parts += [_escaped(rest[end : code.start()]), f"``{code[2]}``"]
        after = rest[code.end() : code.end() + 1]
        parts.append("\\ " if after.isalnum() else "")  # `Dataset`s
        end = code.end()
    return head + "".join(parts) + _escaped(rest[end:])


def _escaped(text: str) -> str:
    return re.sub(r"([*|])|(?<=\w)(_)(?!\w)", lambda sign: f"\\{sign[0]}", text)


def _quote_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = [quoted(line) for line in lines]


def _with_dashes(app: Sphinx, tree: nodes.document) -> None:
    for text in list(tree.findall(nodes.Text)):
        if text == " -- ":  # between the name of a parameter and its description
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Quote docstrings before napoleon, whose priority is 500, reads their sections."""
    app.connect("doctree-read", _with_dashes)
    app.connect("autodoc-process-docstring", _quote_docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
