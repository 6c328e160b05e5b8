"""The directive `lila-commands`: every command of `lila` with its options, from the parsers of the command line."""

import argparse
from collections.abc import Iterator
from typing import cast

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from lila.cli import make_parser

_WIDTH = 88


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands of a parser, by name."""
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: made for action in found for name, made in action.choices.items()}


def named(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """Return how an argument is written: `--size SIZE`, say, or `DATA`."""
    if not action.option_strings:
        return formatter._format_args(action, formatter._get_default_metavar_for_positional(action))
    value = (
        formatter._format_args(action, formatter._get_default_metavar_for_optional(action)) if action.nargs != 0 else ""
    )
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def described(parser: argparse.ArgumentParser) -> Iterator[nodes.Node]:
    """Yield the description of a command: what it does, its usage, its options by group, its examples."""
    formatter = argparse.HelpFormatter(parser.prog, width=_WIDTH)
    for text in (parser.description or "").strip().split("\n\n"):
        yield nodes.paragraph("", "", *with_code(" ".join(text.split())))
    given = [named(action, formatter) for action in parser._actions if not action.option_strings]
    usage = " ".join([parser.prog, "[options]", *given])
    yield nodes.literal_block(usage, usage, language="text")
    for group in parser._action_groups:
        shown = [a for a in group._group_actions if a.help != argparse.SUPPRESS and "--help" not in a.option_strings]
        if not shown:
            continue
        yield nodes.rubric("", (group.title or "").capitalize())
        if group.description:
            yield nodes.paragraph("", "", *with_code(group.description))
        listed = nodes.definition_list(classes=["options"])
        for action in shown:
            term = nodes.term("", "", nodes.literal("", named(action, formatter)))
            about = formatter._expand_help(action) if action.help else ""
            meaning = nodes.definition("", nodes.paragraph("", "", *with_code(about)))
            listed += nodes.definition_list_item("", term, meaning)
        yield listed
    if parser.epilog:
        heading, _, examples = parser.epilog.partition("\n")
        yield nodes.rubric("", heading.rstrip(":").capitalize())
        text = "\n".join(line.removeprefix("  ") for line in examples.splitlines())
        yield nodes.literal_block(text, text, language="console")


def with_code(text: str) -> Iterator[nodes.Node]:
    """Yield a text with what stands in backticks as code."""
    for i, part in enumerate(text.split("`")):
        yield nodes.literal("", part) if i % 2 else nodes.Text(part)


class Commands(Directive):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections, those of commands of commands inside of theirs."""
        return [
            self._section(f"lila {name}", parser) for name, parser in commands(make_parser(None, whole=True)).items()
        ]

    def _section(self, title: str, parser: argparse.ArgumentParser) -> nodes.Node:
        parser.prog = title
        section = nodes.section("", nodes.title("", title), *described(parser), ids=[title.replace(" ", "-")])
        section["names"] = [title]
        self.state.document.note_explicit_target(section)
        for name, below in commands(parser).items():
            section += self._section(f"{title} {name}", below)
        return cast(nodes.Node, section)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("lila-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
