"""Print a script that completes lila's commands and options in a shell."""

import argparse

import shtab

EXAMPLES = """examples:
  lila completion bash > ~/.local/share/bash-completion/completions/lila
  lila completion zsh > ~/.zfunc/_lila"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila completion`."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="which")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila completion`."""
    from lila.cli import make_parser

    print(shtab.complete(make_parser(None, whole=True), arguments.shell))
    return 0
