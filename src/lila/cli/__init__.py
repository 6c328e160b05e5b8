"""The command line. What a command needs is imported when it runs, so that help and version answer at once.

Exit codes: see `EXIT_CODES`; 0 is success, 2 also a wrong use of the command line, 130 and 143 an interruption by
Ctrl-C or SIGTERM, after which `lila resume` goes on.
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence

from lila import __version__
from lila.cli.first_steps import first_screen
from lila.cli.parser import Parser

_ABOUT = "Learn which transformations of the input leave the output unchanged, and how far."
_MORE = "`lila` alone says what to do first, and `lila COMMAND --help` tells more about a command."
_OPTIONS = {"options": {"-h, --help": "show this text", "--version": "show the version"}}

GROUPS: dict[str, dict[str, str]] = {
    "to learn": {
        "train": "learn invariances from images",
        "resume": "go on with a run that was interrupted",
    },
    "to look at what was learned": {
        "show": "what a run learned",
        "report": "a web page about runs",
    },
    "to use it": {
        "predict": "classes of images, by a run's network",
        "export": "the learned augmentation for other libraries",
    },
    "to choose from": {
        "data": "the data sets known by name",
        "models": "the networks known by name",
        "augmentations": "the families of transformations known by name",
    },
    "for research": {
        "reproduce": "the tables and figures of the paper",
        "bench": "what a hyper-step costs on this machine",
    },
    "for the machine": {
        "doctor": "whether lila works on this machine",
        "completion": "a script that completes commands in a shell",
    },
}
"""What each command does, by name, in the groups of the help."""

COMMANDS: dict[str, str] = {name: about for group in GROUPS.values() for name, about in group.items()}

EXIT_CODES = {
    "ArgumentError": 2,
    "DataError": 3,
    "ModelError": 4,
    "MemoryBudgetError": 5,
    "NumericalError": 6,
    "CheckpointError": 7,
    "RankError": 9,
}
"""Exit code by class of error; any other error of lila's is 1."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `lila` and return the exit code."""
    from lila._util.shell import printable
    from lila.errors import LilaError

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # a path may hold bytes that are no UTF-8
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except LilaError as error:
        who = f"lila, rank {os.environ['RANK']}" if "RANK" in os.environ else "lila"
        print(printable(f"{who}: {error}"), file=sys.stderr)
        return next((EXIT_CODES[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in EXIT_CODES), 1)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        print(printable(f"lila: {error}"), file=sys.stderr)
        return 8
    except KeyboardInterrupt as error:
        print(f"lila: {str(error) or 'interrupted'}", file=sys.stderr)
        return 130


def _run(given: list[str]) -> int:
    """Read the arguments and run the command that they name. Even making its parser may import torch, for seconds."""
    chosen = make_parser(next((name for name in given if name in COMMANDS), None)).parse_args(given)
    if chosen.command is None:
        print(first_screen())
        return 0
    code: int = importlib.import_module(f"lila.cli.{chosen.command}").run(chosen)
    return code


def make_parser(command: str | None, whole: bool = False) -> Parser:
    """Return the parser of all commands, with the options of one of them, or of the whole."""
    parser = CommandsParser(prog="lila", add_help=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, about in COMMANDS.items():
        if whole or name == command:
            module = importlib.import_module(f"lila.cli.{name}")
            made = commands.add_parser(
                name, help=about, description=module.__doc__, epilog=module.EXAMPLES, add_help=False
            )
            module.add_arguments(made)
            made.finish()
        else:
            commands.add_parser(name, help=about)
    parser.finish(version=f"lila {__version__}")
    return parser


class CommandsParser(Parser):
    """The parser of all commands, whose help lists them in groups."""

    def format_help(self) -> str:
        """Return the help."""
        lines = ["usage: lila COMMAND ...", "", _ABOUT]
        for title, group in (GROUPS | _OPTIONS).items():
            lines += ["", f"{title}:", *(f"  {name:<15}{about}" for name, about in group.items())]
        return "\n".join([*lines, "", _MORE, ""])
