"""The parser of the command line: a short line of usage, and errors that say which name was probably meant."""

import argparse
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from lila._util.shell import printable
from lila._util.suggestions import did_you_mean, nearest

_WIDTH = 100  # columns of help, at most
_COLUMN = 26  # of help where the descriptions begin
_MISSING = "the following arguments are required: "  # how argparse begins a message


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Writes help over the width of the terminal, up to 100 columns.

    Args:
        prog: the name of the command.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_COLUMN, width=min(shutil.get_terminal_size().columns, _WIDTH))


class Parser(argparse.ArgumentParser):
    """A parser whose errors are sentences.

    Args:
        **options: arguments of argparse.ArgumentParser.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter} | options)

    def finish(self, *, version: str | None = None) -> None:
        """Add --help as the last option, and make the line of usage, when all other arguments are there.

        Args:
            version: what --version prints, if there is that option.
        """
        group = self.add_argument_group("help")
        group.add_argument("-h", "--help", action="help", help="show this text")
        if version is not None:
            group.add_argument("--version", action="version", version=version, help="show the version")
        places = [action for action in self._actions if not action.option_strings]
        self.usage = " ".join([self.prog, *map(_place, places), *([] if _has_commands(places) else ["[options]"])])

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, after a look for options that do not exist, which are the likeliest mistake.

        What a command has no place for is refused here: argparse leaves that to the parser of all commands, whose help
        says nothing about it.
        """
        if args is not None:
            self._check_options(args)
        read, stray = super().parse_known_args(args, namespace)
        if stray and not _has_commands(self._actions):
            self._refuse(stray)
        return read, stray

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with exit code 2."""
        if message.startswith(_MISSING):
            names = message.removeprefix(_MISSING)
            message = f"{names} {'are' if ',' in names else 'is'} missing{self._example()}"
        sentence = message.removeprefix("argument ") + ("" if message.endswith((".", "?")) else ".")
        self.exit(2, printable(f"{self.prog}: {sentence} (`{self.prog} --help` tells more.)\n"))

    def _example(self) -> str:
        """Return the first example of the help."""
        lines = (self.epilog or "").splitlines()[1:2]
        return f". For example: `{lines[0].strip()}`" if lines else ""

    def _refuse(self, stray: Sequence[str]) -> NoReturn:
        """End with an error about words that the command has no place for."""
        word = stray[0]
        if word.startswith("-"):
            self.error(f"There is no option {word}.")
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        meant = f" Did you mean --{word}?" if f"--{word}" in self._option_string_actions else ""
        self.error(f"There is no place for {word!r} in `{usage}`.{meant}")

    def _check_options(self, args: Sequence[str]) -> None:
        """End with an error if an option does not exist; what follows a command is for the parser of that command."""
        known, has_commands = list(self._option_string_actions), _has_commands(self._actions)
        for word in args:
            if word == "--" or (has_commands and not word.startswith("-")):
                return
            option = word.partition("=")[0]
            if not option.startswith("--") or " " in option or any(name.startswith(option) for name in known):
                continue
            meant = nearest(option, [name for name in known if name.startswith("--")])
            self.error(f"There is no option {option}." + (f" Did you mean {meant}?" if meant else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        meant, listed = did_you_mean(value, known), _listed(known)
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(
                None, f"There is no command {value!r}.{meant or f' The commands are {listed}.'}"
            )
        raise argparse.ArgumentError(action, f"{value!r} is none of {listed}.{meant}")


def _has_commands(actions: Iterable[argparse.Action]) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) for action in actions)


def _place(action: argparse.Action) -> str:
    """Return how the line of usage writes an argument that has no option."""
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if isinstance(action, argparse._SubParsersAction):
        return f"{name} ..."
    return {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(action.nargs), name)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
