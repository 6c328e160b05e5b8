"""Modules as plain data, so that a saved run can be opened without its code and without unpickling anything.

Layers of `torch.nn` whose arguments are kept as attributes can be described, and so can `nn.Sequential` of such layers,
registered families of augmentations, and lila's own modules, which say their arguments by a method `arguments`. Other
modules have no description, and whoever loads a run must pass them.
"""

import inspect
import json
from typing import Any

import torch
from torch import nn

from lila import networks
from lila.augment import Augmentation, Compose
from lila.augment.registry import build_augmentation, describe_augmentation
from lila.errors import DataError
from lila.model import fixup, likelihood

Description = dict[str, Any]

_OWN: dict[str, type[nn.Module]] = {
    f"lila.{cls.__name__}": cls
    for cls in (
        Compose,
        fixup.Bias,
        fixup.Scale,
        likelihood.Bernoulli,
        likelihood.Categorical,
        likelihood.Gaussian,
        networks.FixupResNet,
        networks.ViT,
        networks.WideFixupResNet,
    )
}


def describe(module: nn.Module) -> Description | None:
    """A module's class and arguments, or None if it cannot be made again from them."""
    if isinstance(module, Augmentation) and not isinstance(module, Compose):
        return describe_augmentation(module)
    name = _name(type(module))
    if name is None:
        return None
    if isinstance(module, nn.Sequential | Compose):
        parts = module.parts if isinstance(module, Compose) else module
        children = {key: describe(child) for key, child in parts.named_children()}
        return None if None in children.values() else {"class": name, "children": children}
    if name in _OWN:
        own: dict[str, Any] | None = getattr(module, "arguments", dict)()
        return None if own is None else {"class": name, "arguments": own}
    if any(True for _ in module.children()):
        return None
    description = {"class": name, "arguments": _arguments(module)}
    return description if _makes(description, module) else None


def build(description: Description) -> nn.Module:
    """The module of a description, freshly initialised."""
    if "family" in description:
        return build_augmentation(description)
    cls = _class(str(description.get("class")))
    if "children" in description:
        children = {key: build(child) for key, child in description["children"].items()}
        if cls is nn.Sequential:
            made = nn.Sequential()
            for key, child in children.items():
                made.add_module(key, child)
            return made
        return cls(*children.values())
    return cls(**description["arguments"])


def _name(cls: type[nn.Module]) -> str | None:
    if getattr(nn, cls.__name__, None) is cls:
        return f"torch.nn.{cls.__name__}"
    name = f"lila.{cls.__name__}"
    return name if _OWN.get(name) is cls else None


def _class(name: str) -> type[nn.Module]:
    found = _OWN.get(name) or getattr(nn, name.removeprefix("torch.nn."), None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise DataError(f"The description names a module {name!r} that is neither of torch.nn nor of lila.")
    return found


def _arguments(module: nn.Module) -> dict[str, Any]:
    """The arguments that would make a layer of torch.nn again, read off its attributes."""
    arguments = {}
    for name, parameter in inspect.signature(type(module)).parameters.items():
        if name in ("device", "dtype") or not hasattr(module, name):
            continue
        value = getattr(module, name)
        if isinstance(value, torch.Tensor) or (value is None and isinstance(parameter.default, bool)):
            value = value is not None  # `bias=True` leaves a parameter named bias, `bias=False` leaves None
        arguments[name] = list(value) if isinstance(value, tuple) else value
    return arguments


def _makes(description: Description, module: nn.Module) -> bool:
    """Whether a description makes a module of the same arguments and parameters."""
    try:
        made = build(json.loads(json.dumps(description)))
    except (TypeError, ValueError):
        return False
    shapes = {name: p.shape for name, p in module.state_dict().items()}
    return repr(made) == repr(module) and {name: p.shape for name, p in made.state_dict().items()} == shapes
