"""A setting chosen by name: one lookup and one error message for all of them."""

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
