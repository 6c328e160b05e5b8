"""What `lila` says when it is called without a command: what to do first."""

from importlib.util import find_spec

_BEFORE = """
First install what it needs:
  pip install 'lila-torch[digits,plots]'
"""
_SCREEN = """lila learns which transformations of the input leave the output unchanged, and how far,
in one training run and from the training data alone.
{before}
Try it. These digits were turned by up to 90 degrees, and lila finds that out in a minute or two:
  lila train digits --transform partially-rotated --out runs/digits
  lila report runs/digits --out report.html

With your own images, in a folder for each class:
  lila train photos/ --size 32 --out runs/photos

More:
  lila doctor             whether everything works on this machine
  lila --help             all commands
  lila train --help       all options of a command"""


def first_screen() -> str:
    """Return the text; it asks for an installation only if something is missing."""
    missing = any(find_spec(package) is None for package in ("sklearn", "matplotlib", "jinja2"))
    return _SCREEN.format(before=_BEFORE if missing else "")
