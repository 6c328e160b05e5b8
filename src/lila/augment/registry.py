"""The families of augmentations by name, and the user's own by the path of their class."""

import inspect
import json
from typing import Any

from torch import nn

from lila._util.imports import import_by_path
from lila.augment.base import Augmentation
from lila.errors import ArgumentError, DataError

FAMILIES: dict[str, type[Augmentation]] = {}
"""The registered families by name; `register_augmentation` adds to them."""


def register_augmentation(name: str, family: type[Augmentation]) -> None:
    """Make a family of augmentations known by name.

    The command line then offers it (`lila train --augment NAME`), and runs that use it can be loaded without passing
    the augmentation if the family implements `arguments`. A family that is defined again, as in a notebook, replaces
    its earlier definition.

    Args:
        name: the name of the family: letters, digits and hyphens.
        family: its class, whose constructor takes plain data.
    """
    if not name.replace("-", "").isalnum():
        raise ArgumentError(f"The name of a family consists of letters, digits and hyphens, but {name!r} does not.")
    _check_family(name, family)
    known = FAMILIES.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (family.__module__, family.__qualname__):
        raise ArgumentError(
            f"The name {name!r} belongs to {known.__module__}.{known.__qualname__} already; register "
            f"{family.__qualname__} under another name."
        )
    FAMILIES[name] = family


def augmentation_names() -> list[str]:
    """Return the names of the registered families."""
    return list(FAMILIES)


def augmentation_titles() -> dict[str, str]:
    """Return the first line of each registered family's docstring by name."""
    return {name: (inspect.getdoc(family) or "").partition("\n")[0] for name, family in FAMILIES.items()}


def make_augmentation(name: str, **arguments: Any) -> Augmentation:
    """Make an augmentation.

    Args:
        name: a registered name, or "package.module:Class" for a family of your own.
        **arguments: the arguments of the family's class.
    """
    return _make(name, _imported_family(name) if ":" in name else _registered_family(name), arguments)


def describe_augmentation(augmentation: Augmentation) -> dict[str, Any] | None:
    """Return the family and the arguments of an augmentation as plain data.

    None if its class is not registered, or does not tell its arguments.
    """
    name = next((name for name, family in FAMILIES.items() if type(augmentation) is family), None)
    arguments = augmentation.arguments()
    if name is None or arguments is None:
        return None
    description = {"family": name, "arguments": arguments}
    _check_description(augmentation, description)
    return description


def build_augmentation(description: dict[str, Any]) -> Augmentation:
    """Make an augmentation from its description, with parameters at their start; only registered families are made."""
    name = str(description["family"])
    if name not in FAMILIES:
        raise DataError(
            f"This run uses the augmentation family {name!r}, which is not registered here. Import the module that "
            "registers it (lila.register_augmentation) first, or pass it: lila.load(folder, augmentation=...)."
        )
    return _make(name, FAMILIES[name], description["arguments"])


def _make(name: str, family: type[Augmentation], arguments: dict[str, Any]) -> Augmentation:
    signature = inspect.Signature() if family.__init__ is nn.Module.__init__ else inspect.signature(family)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        taken = ", ".join(signature.parameters) or "no arguments"
        raise ArgumentError(
            f"The augmentation {name!r} cannot be made with {arguments}: {error}. It takes: {taken}."
        ) from error
    return family(**arguments)


def _registered_family(name: str) -> type[Augmentation]:
    if name not in FAMILIES:
        raise ArgumentError(
            f"There is no augmentation named {name!r}; choose one of {', '.join(map(repr, FAMILIES))}, register one "
            "with lila.register_augmentation, or name the class of your own: package.module:Class."
        )
    return FAMILIES[name]


def _imported_family(path: str) -> type[Augmentation]:
    try:
        family = import_by_path(path)
    except Exception as error:  # the module is the user's and may raise anything
        raise ArgumentError(
            f"The augmentation {path!r} could not be imported: {type(error).__name__}: {error}. Write "
            "package.module:Class for a class in a module that Python finds, from the current folder or the installed "
            "packages."
        ) from error
    _check_family(path, family)
    found: type[Augmentation] = family
    return found


def _check_family(name: str, family: object) -> None:
    if not (isinstance(family, type) and issubclass(family, Augmentation)):
        raise ArgumentError(f"The family {name!r} must be a subclass of lila.Augmentation, but is {family!r}.")
    if inspect.isabstract(family):
        raise ArgumentError(f"{family.__name__} cannot be used as the family {name!r}: it does not define `forward`.")


def _check_description(augmentation: Augmentation, description: dict[str, Any]) -> None:
    """Raise ArgumentError unless a description makes an augmentation with the same parameters."""
    try:
        made = build_augmentation(json.loads(json.dumps(description)))
    except (TypeError, ValueError) as error:  # also lila's own ArgumentError
        problem = f"they make none: {error}"
    else:
        here, there = ({k: tuple(v.shape) for k, v in a.state_dict().items()} for a in (augmentation, made))
        if here == there:
            return
        problem = f"they make one whose parameters have the shapes {there} instead of {here}"
    raise ArgumentError(
        f"{type(augmentation).__name__}.arguments() returned {description['arguments']}, which should make the "
        f"augmentation again, but {problem}. Return the arguments of its constructor as plain data, or None."
    )
