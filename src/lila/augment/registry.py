"""The families of augmentations by name, and the user's own by the path of their class."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from lila._util.arguments import check_arguments, check_names
from lila._util.choices import check_name
from lila._util.imports import import_by_path
from lila._util.suggestions import did_you_mean
from lila.augment.base import Augmentation, Shape
from lila.augment.compose import Compose
from lila.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Family:
    """What a name stands for.

    Attributes:
        cls: the class of the family.
        arguments: the arguments of the class that the name fixes.
    """

    cls: type[Augmentation]
    arguments: Mapping[str, Any] = field(default_factory=dict)


FAMILIES: dict[str, Family] = {}
"""The registered families by name; `register_augmentation` adds to them."""


def register_augmentation(name: str, family: type[Augmentation], **arguments: Any) -> None:
    """Make a family of augmentations known by name.

    The command line then offers it (`lila train --augment NAME`), and runs that use it can be loaded without passing
    the augmentation if the family implements `arguments`. A family that is defined again, as in a notebook, replaces
    its earlier definition.

    Args:
        name: the name of the family: letters, digits and hyphens.
        family: its class, whose constructor takes plain data.
        **arguments: arguments of the class that the name stands for, as correlated=True for "correlated-affine".
    """
    check_name(name, "a family")
    _check_family(name, family)
    known = FAMILIES[name].cls if name in FAMILIES else None
    if known is not None and (known.__module__, known.__qualname__) != (family.__module__, family.__qualname__):
        raise ArgumentError(
            f"The name {name!r} belongs to {known.__module__}.{known.__qualname__} already; register "
            f"{family.__qualname__} under another name."
        )
    FAMILIES[name] = Family(family, arguments)


def augmentation_names() -> list[str]:
    """Return the names of the registered families."""
    return list(FAMILIES)


def augmentation_titles() -> dict[str, str]:
    """Return the first line of each registered family's docstring by name, with the arguments that the name fixes."""
    titles = {}
    for name, family in FAMILIES.items():
        fixed = ", ".join(f"{argument}={value!r}" for argument, value in family.arguments.items())
        titles[name] = (inspect.getdoc(family.cls) or "").partition("\n")[0] + (f" ({fixed})" if fixed else "")
    return titles


def make_augmentation(name: str, **arguments: Any) -> Augmentation:
    """Make an augmentation.

    Args:
        name: a registered name, or "package.module:Class" for a family of your own; several names with commas between
            them make a `Compose` of the families in this order.
        **arguments: the arguments of the family's class. Of several families, each gets those that its class takes, and
            of `generators` those that it has; a family of which none is named keeps all of its own.
    """
    names = [part.strip() for part in name.split(",")]
    families = [_find(part) for part in names]
    if len(families) == 1:
        return _make(name, families[0], arguments)
    taken = [{key: value for key, value in arguments.items() if key in _parameters(family)} for family in families]
    if "generators" in arguments:
        _divide_generators(names, families, taken)
    known = list(dict.fromkeys(key for family in families for key in _parameters(family)))
    check_names(
        arguments, known, f"None of the augmentations {', '.join(names)} takes the argument", listed="They take"
    )
    return Compose(*(_make(*one) for one in zip(names, families, taken, strict=True)))


def takes_argument(name: str, argument: str) -> bool:
    """Return whether a registered family, or one of several with commas between them, takes an argument."""
    named = (FAMILIES.get(part.strip()) for part in name.split(","))
    return any(family is not None and argument in _parameters(family) for family in named)


def fitting_families(shape: Shape) -> list[str]:
    """Return the names of the registered families that can transform inputs of this shape."""
    fitting = []
    for name, family in FAMILIES.items():
        try:
            _make(name, family, {}).check_shape(shape)
        except (ArgumentError, DataError):  # it does not fit, or cannot be made without arguments
            continue
        fitting.append(name)
    return fitting


def check_fits(augmentation: Augmentation, shape: Shape) -> None:
    """Raise DataError, which names the families that fit, if an augmentation cannot transform inputs of this shape."""
    try:
        augmentation.check_shape(shape)
    except DataError as error:
        fitting = ", ".join(fitting_families(shape)) or "none of the registered ones"
        raise DataError(f"{error} Families that fit inputs of shape {shape}: {fitting}.") from error


def describe_augmentation(augmentation: Augmentation) -> dict[str, Any] | None:
    """Return the family and the arguments of an augmentation as plain data.

    None if its class is not registered, or does not tell its arguments.
    """
    name = next((name for name, family in FAMILIES.items() if type(augmentation) is family.cls), None)
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


def _make(name: str, family: Family, arguments: Mapping[str, Any]) -> Augmentation:
    parameters = _parameters(family)
    check_arguments(arguments, parameters, f"The augmentation {name!r} has no argument")
    try:
        inspect.Signature(list(parameters.values())).bind(**{**family.arguments, **arguments})
    except TypeError as error:
        taken = ", ".join(parameters) or "no arguments"
        raise ArgumentError(
            f"The augmentation {name!r} cannot be made with {dict(arguments)}: {error}. It takes: {taken}."
        ) from error
    return family.cls(**{**family.arguments, **arguments})


def _divide_generators(names: Sequence[str], families: Sequence[Family], taken: Sequence[dict[str, Any]]) -> None:
    """Leave to each of several families the generators that it has; `taken` holds their arguments, and is changed."""
    unknown = {generator: True for arguments in taken for generator in arguments.get("generators", ())}
    for name, family, arguments in zip(names, families, taken, strict=True):
        own = [g for g in arguments.pop("generators", ()) if _has_generator(name, family, g)]
        unknown |= dict.fromkeys(own, False)
        if own:
            arguments["generators"] = own
    missing = [generator for generator, is_unknown in unknown.items() if is_unknown]
    if missing:
        raise ArgumentError(f"None of the augmentations {', '.join(names)} has the generator {missing[0]!r}.")


def _has_generator(name: str, family: Family, generator: str) -> bool:
    try:
        _make(name, family, {"generators": [generator]})
    except ArgumentError:
        return False
    return True


def _parameters(family: Family) -> Mapping[str, inspect.Parameter]:
    """Return the arguments that the class of a family takes."""
    has_none = family.cls.__init__ is nn.Module.__init__
    return {} if has_none else inspect.signature(family.cls).parameters


def _find(name: str) -> Family:
    """Return the family of a registered name, or of the path of a class."""
    if ":" in name:
        return Family(_imported_family(name))
    if name not in FAMILIES:
        raise ArgumentError(
            f"There is no augmentation named {name!r}; choose one of {', '.join(map(repr, FAMILIES))}, register one "
            "with lila.register_augmentation, or name the class of your own: package.module:Class."
            f"{did_you_mean(name, FAMILIES)}"
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
