"""Constructors that answer an argument which they do not take with the one that was probably meant."""

import inspect
from collections.abc import Collection, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from lila._util.suggestions import did_you_mean
from lila.errors import ArgumentError

T = TypeVar("T")


def suggests_arguments(cls: type[T]) -> type[T]:
    """Let the constructor of a class raise ArgumentError, which names the nearest argument, for one that is unknown.

    A decorator of classes; on a dataclass it stands above `dataclass`. Calls, signatures, pickles and type checkers see
    the class as it was. A subclass with a constructor of its own has to be decorated as well.
    """
    construct = cls.__init__
    parameters = inspect.signature(cls).parameters

    @wraps(construct)
    def checked(self: Any, *args: Any, **named: Any) -> None:
        called = type(self) if type(self).__init__ is checked else cls  # a subclass may call this by super()
        check_arguments(named, parameters, f"{called.__name__} has no argument")
        construct(self, *args, **named)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls


def check_arguments(given: Iterable[str], parameters: Mapping[str, inspect.Parameter], wrong: str) -> None:
    """Raise ArgumentError if parameters of a function take no argument of a name; see `check_names`."""
    if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_names(given, parameters, wrong)


def check_names(
    given: Iterable[str],
    known: Collection[str],
    wrong: str,
    *,
    listed: str = "It takes",
    beside: Iterable[str] = (),
) -> None:
    """Raise ArgumentError, with the known name that was probably meant, if a name is not known.

    Args:
        given: the names.
        known: those that there are.
        wrong: what the message says before the name that is not known.
        listed: what it says before the list of those that there are.
        beside: further names, of something else, one of which may be meant.
    """
    for name in given:
        if name not in known:
            meant = did_you_mean(name, [*known, *beside])
            raise ArgumentError(f"{wrong} {name!r}.{meant} {listed}: {', '.join(known) or 'no arguments'}.")
