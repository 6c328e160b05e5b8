"""Checks of settings that are chosen by name or that count something, with one error message for all of them."""

from enum import Enum
from typing import TypeVar

from lila.errors import ArgumentError

E = TypeVar("E", bound=Enum)


def choose(options: type[E], name: str | E, what: str) -> E:
    """Return the member of an enumeration with this value, or raise an error that lists the values there are."""
    try:
        return options(name)
    except ValueError:
        known = ", ".join(repr(option.value) for option in options)
        raise ArgumentError(f"There is no {what} named {name!r}; choose one of {known}.") from None


def check_count(name: str, value: int | None, optional: bool = False) -> None:
    """Raise ArgumentError unless a value is a whole number of at least 1, or None if it is optional."""
    if optional and value is None:
        return
    if not isinstance(value, int) or value < 1:
        all_ = ", or None for all" if optional else ""
        raise ArgumentError(f"{name} must be a whole number of at least 1{all_}, but is {value}.")
