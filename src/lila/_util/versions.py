"""The versions of the software that a result was made with."""

import platform

import torch

from lila import __version__


def versions() -> dict[str, str]:
    """Return the versions of lila, PyTorch and Python by package name."""
    return {"lila": __version__, "torch": torch.__version__, "python": platform.python_version()}
