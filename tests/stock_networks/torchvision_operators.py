"""Lets timm be imported also where the compiled part of torchvision does not fit the installed torch.

timm imports torchvision, whose Python part registers something for two of its compiled operators. If these are missing,
their names are declared here. Nothing that is tested calls them.
"""

import importlib

import torch

_ARGUMENTS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_KEPT: list[torch.library.Library] = []  # or the names would be forgotten


def declare_missing_operators() -> None:
    """Declare the operators of torchvision that are missing, if torchvision is installed and cannot be imported."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(name + _ARGUMENTS)
        _KEPT.append(library)
