"""Print a script that completes lila's commands and options in a shell.

Where the script belongs:
  bash        ~/.local/share/bash-completion/completions/lila
  zsh         a file _lila in a folder of your $fpath, as ~/.zfunc
  fish        ~/.config/fish/completions/lila.fish
  powershell  a file that your $PROFILE runs
  tcsh        a file that your ~/.tcshrc sources
"""

import argparse

import shtab

EXAMPLES = """examples:
  lila completion bash > ~/.local/share/bash-completion/completions/lila
  lila completion zsh > ~/.zfunc/_lila
  lila completion fish > ~/.config/fish/completions/lila.fish
  lila completion powershell >> $PROFILE"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila completion`."""
    parser.add_argument(
        "shell", choices=shtab.SUPPORTED_SHELLS, metavar="SHELL", help=", ".join(shtab.SUPPORTED_SHELLS)
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `lila completion`."""
    from lila.cli import make_parser

    print(shtab.complete(make_parser(None, whole=True), arguments.shell))
    return 0
