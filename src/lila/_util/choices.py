"""Settings that are chosen by name or counted: one check and one error message for all of them."""

from enum import Enum
from typing import TypeVar

from lila.errors import ArgumentError

E = TypeVar("E", bound=Enum)


def choose(options: type[E], name: str | E, what: str) -> E:
    """The member of an enumeration of that name, or an error that lists the names there are."""
    try:
        return options(name)
    except ValueError:
        known = ", ".join(repr(option.value) for option in options)
        raise ArgumentError(f"There is no {what} named {name!r}; choose one of {known}.") from None


def check_count(name: str, value: int | None, optional: bool = False) -> None:
    """Raise unless a value is a whole number of at least 1, or None where that means all."""
    if optional and value is None:
        return
    if not isinstance(value, int) or value < 1:
        all_ = ", or None for all" if optional else ""
        raise ArgumentError(f"{name} must be a whole number of at least 1{all_}, but is {value}.")
