"""The versions of the software that a result was made with."""

import platform
from importlib.metadata import version

import torch


def versions() -> dict[str, str]:
    """Return the versions of lila, PyTorch and Python by package name."""
    return {"lila": version("lila-torch"), "torch": torch.__version__, "python": platform.python_version()}
