"""Import of the user's own functions and classes by their path."""

import importlib
import sys
from typing import Any


def import_by_path(path: str) -> Any:
    """Return what "package.module:name" names, from the current folder or the installed packages."""
    module, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, which a console script does not look into by itself
    return getattr(importlib.import_module(module), name)
