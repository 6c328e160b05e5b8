"""The one place where values that were read from a run's folder are checked before anything uses them.

The schema of a file is a dataclass. `checked` compares a JSON value with its annotations, field by field, and makes the
dataclass, whose own checks see to the bounds. Whatever is wrong becomes a `CheckpointError` of one sentence that names
the file and the field.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from lila.errors import CheckpointError, LilaError

_MOST_BYTES = 2**24  # of a JSON value; what a run writes takes some thousands
_MOST_OF_FILE = 2**30  # bytes of a text file; the history of an epoch takes some thousands
_MOST_DEPTH = 32  # levels of nested lists and objects
_MOST_NAME = 40  # characters of a field's name in a message
_MOST_OF_MESSAGE = 300  # characters of an error that says what was wrong
_MOST_WHOLE = 2**53  # beyond it not every whole number is a number of JSON


def parse_json(text: str, place: str) -> Any:
    """Parse a JSON value that has no NaN and is neither too large nor nested too deeply."""
    if len(text) > _MOST_BYTES:
        raise CheckpointError(f"{place} is damaged: it has {len(text):,} characters, and at most {_MOST_BYTES:,} fit.")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise CheckpointError(f"{place} is damaged: it is nested more than {_MOST_DEPTH} levels deep.") from None
    except ValueError as error:
        raise CheckpointError(f"{place} is damaged and cannot be read: {error}") from error
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [child for parent in level for child in _children(parent)]
    if level:
        raise CheckpointError(f"{place} is damaged: it is nested more than {_MOST_DEPTH} levels deep.")
    try:
        json.dumps(value, ensure_ascii=False).encode(errors="surrogateescape")  # as bytes of a path are written
    except UnicodeEncodeError:
        raise CheckpointError(f"{place} is damaged: a text in it holds half of a character.") from None
    return value


def read_text(path: Path) -> str:
    """Read a text file of a run."""
    check_file(path)
    if path.stat().st_size > _MOST_OF_FILE:
        raise CheckpointError(
            f"{path} is damaged: it has {path.stat().st_size:,} bytes, and at most {_MOST_OF_FILE:,} fit."
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged and cannot be read: {error}") from error


def check_file(path: Path) -> None:
    """Raise CheckpointError unless a path is a regular file: reading a pipe or a device might never end."""
    if not path.is_file():
        raise CheckpointError(f"{path} cannot be read: it is not a regular file.")


def check_no_link(path: Path) -> None:
    """Raise CheckpointError if a path that is about to be written to is a link: another file would be changed."""
    if path.is_symlink():
        raise CheckpointError(
            f"{path} is a link, and writing to it would change {os.readlink(path)[:80]!r}. Put the file itself in its "
            "place, or remove the link."
        )


def checked(kind: Any, value: Any, place: str) -> Any:
    """Check a JSON value against a type and convert it.

    Args:
        kind: a dataclass, bool, int, float, str, a tuple, list or mapping of these, or a union; `Any` for a value that
            is checked elsewhere. A float is finite, an int is none of JSON's true and false.
        value: as the json module gives it.
        place: the file and the field for the message, as "run.json: settings", or "run.json: " for the whole file.

    Returns:
        An instance of `kind`.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _one_of(arguments, value, place)
    if is_dataclass(kind):
        return _instance(kind, value, place)
    if origin in (tuple, list):
        return _sequence(origin, arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        items = _object(value, place).items()
        return {name: checked(arguments[1], part, at(place, name)) for name, part in items}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > _MOST_WHOLE and isinstance(value, int):
            _refuse(value, "a finite number", place)
        return float(value) if isfinite(value) else _refuse(value, "a finite number", place)
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST_WHOLE:
        return value
    if kind in (bool, str) and isinstance(value, kind):
        return value
    return _refuse(value, _NAMES[kind], place)


def at(place: str, name: str) -> str:
    """Return the place of a field of a place, which is a file if it ends with a colon."""
    name = name if name.isprintable() and 0 < len(name) <= _MOST_NAME else ascii(name[:_MOST_NAME])
    return place + name if place.endswith(": ") else f"{place}.{name}"


def _one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    for kind in others[:-1]:
        try:
            return checked(kind, value, place)
        except CheckpointError:
            continue
    return checked(others[-1], value, place)


def _instance(kind: Any, value: Any, place: str) -> Any:
    """Make a dataclass. A field may be missing only if its default is None."""
    given, hints = dict(_object(value, place)), get_type_hints(kind)
    known = [field for field in fields(kind) if field.init]
    unknown = sorted(given.keys() - {field.name for field in known})
    if unknown:
        raise CheckpointError(f"{at(place, unknown[0][:40])} is no field that a run writes.")
    made = {}
    for field in known:
        if field.name in given:
            made[field.name] = checked(hints[field.name], given[field.name], at(place, field.name))
        elif field.default is not None:
            raise CheckpointError(f"{at(place, field.name)} is missing.")
    try:
        return kind(**made)
    except LilaError as error:
        told = str(error)[:_MOST_OF_MESSAGE]  # it may repeat a text of any length
        raise CheckpointError(f"{place.removesuffix(': ')} is not what a run writes: {told}") from error


def _sequence(origin: type, arguments: tuple[Any, ...], value: Any, place: str) -> Any:
    if not isinstance(value, list):
        _refuse(value, "a list", place)
    open_ended = origin is list or arguments[-1] is Ellipsis
    if not open_ended and len(value) != len(arguments):
        _refuse(value, f"a list of {len(arguments)}", place)
    kinds = [arguments[0]] * len(value) if open_ended else arguments
    return origin(checked(kind, part, f"{place}[{i}]") for i, (kind, part) in enumerate(zip(kinds, value, strict=True)))


def _object(value: Any, place: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else _refuse(value, "a JSON object", place)


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _refuse(value: Any, wanted: str, place: str) -> NoReturn:
    told = json.dumps(value)
    shown = told if len(told) <= 40 else told[:37] + "..."
    raise CheckpointError(f"{place.removesuffix(': ')} must be {wanted}, but is {shown}.")


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
