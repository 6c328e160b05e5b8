"""Checks of settings that are chosen by name, count or measure something, and of what users register under a name."""

import inspect
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from lila._util.suggestions import did_you_mean
from lila.errors import ArgumentError

E = TypeVar("E", bound=Enum)


def choose(options: type[E], name: str | E, what: str, *, offered: Iterable[E] | None = None) -> E:
    """Return the member of an enumeration with this value, or raise an error that lists the values there are.

    Args:
        options: the enumeration.
        name: the value.
        what: it is the name of, for the error.
        offered: the members that the error lists, if others are not for people to choose.
    """
    try:
        return options(name)
    except ValueError:
        known = [str(option.value) for option in (options if offered is None else offered)]
        listed, meant = ", ".join(map(repr, known)), did_you_mean(name, known)
        raise ArgumentError(f"There is no {what} named {name!r}; choose one of {listed}.{meant}") from None


def check_count(name: str, value: int | None, optional: bool = False) -> None:
    """Raise ArgumentError unless a value is a whole number of at least 1, or None if it is optional."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{name} must be a whole number of at least 1, but is {value!r}.")


def is_number(value: object) -> bool:
    """Return whether a value is a single real number, of Python, NumPy or PyTorch; truth values and texts are none."""
    if isinstance(value, bool | str | bytes) or tuple(getattr(value, "shape", ())):
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def as_numbers(name: str, given: object, count: int) -> list[float]:
    """Return a single number `count` times, or the numbers of a sequence; raise ArgumentError for anything else."""
    values = [given] * count if is_number(given) else given
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} must be a number or a sequence of numbers, but is {given!r}.")
    numbers = list(values)
    if not all(map(is_number, numbers)):
        raise ArgumentError(f"{name} must be a number or a sequence of numbers, but is {given!r}.")
    return [float(number) for number in numbers]


def check_name(name: object, what: str) -> None:
    """Raise ArgumentError unless a name under which something is registered can be typed on a command line."""
    if not (isinstance(name, str) and name.replace("-", "").isalnum()):
        raise ArgumentError(f"The name of {what} consists of letters, digits and hyphens, but {name!r} does not.")


def check_subclass(value: object, parent: type, what: str) -> None:
    """Raise ArgumentError unless a value is a subclass of a class, and defines all that the class asks for."""
    if not (isinstance(value, type) and issubclass(value, parent)):
        raise ArgumentError(f"{what} must be a subclass of lila.{parent.__name__}, but is {value!r}.")
    if inspect.isabstract(value):
        missing = ", ".join(sorted(vars(value)["__abstractmethods__"]))
        raise ArgumentError(f"{what} cannot be {value.__name__}, which does not define {missing}.")


def check_instance(value: object, kind: type, what: str) -> None:
    """Raise ArgumentError unless a value is an instance of a class; a class is told from its instances."""
    if isinstance(value, kind):
        return
    forgotten = isinstance(value, type) and issubclass(value, kind)
    hint = " Did you forget the parentheses that make an instance of the class?" if forgotten else ""
    raise ArgumentError(f"{what} must be an instance of lila.{kind.__name__}, but is {value!r}.{hint}")
