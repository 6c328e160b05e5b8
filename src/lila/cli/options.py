"""Options of the command line that are made from dataclasses, so that each setting is described in one place."""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import shtab

if TYPE_CHECKING:
    from lila.training.description import OwnCode


def takes_path(*actions: argparse.Action) -> None:
    """Let the shell complete these arguments by files and folders."""
    for action in actions:
        action.complete = shtab.FILE  # type: ignore[attr-defined]


def takes_folder(*actions: argparse.Action) -> None:
    """Let the shell complete these arguments by folders."""
    for action in actions:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


def add_images_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets a command show images from a path that only the run names."""
    parser.add_argument(
        "--with-images",
        action="store_true",
        help="show images also from a path that the run names, if you trust the run; those of data sets that are known "
        "by name are shown anyway",
    )


def add_own_code_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which the user names a network and an augmentation of their own once more."""
    parser.add_argument(
        "--model",
        metavar="FUNCTION",
        help="package.module:function that made the run's network, if it is one of your own: lila calls no function "
        "because a run names it",
    )
    parser.add_argument(
        "--augment",
        metavar="CLASS",
        help="package.module:Class of the run's augmentation, if it is one of your own, for the same reason; of "
        "several families all names, as they were given",
    )


def own_code(arguments: argparse.Namespace) -> "OwnCode":
    """Return the code of the user's own that the command line names."""
    from lila.training.description import OwnCode

    return OwnCode(model=arguments.model, augmentation=arguments.augment)


def add_settings(
    group: argparse._ArgumentGroup,
    settings: type,
    names: Iterable[str],
    choices: Mapping[str, type[StrEnum] | list[str]],
) -> None:
    """Add an option for fields of a dataclass; an option that is not given leaves no attribute in the result.

    Args:
        group: gets the options.
        settings: the dataclass, whose docstring describes its fields.
        names: of the fields, in the order of the help.
        choices: the names, or the enumeration of names, of each field that is chosen by name.
    """
    described = attribute_texts(settings)
    by_name = {field.name: field for field in fields(settings)}
    for name in names:
        field = by_name[name]
        made = group.add_argument(
            f"--{name.replace('_', '-')}",
            type=_KINDS[_kind(field)][0],
            default=argparse.SUPPRESS,
            metavar=_KINDS[_kind(field)][1],
            help=_for_consoles(described[name]).replace("%", "%%") + _default(field),
        )
        if name in choices:
            made.metavar = None
            offer(made, [str(option) for option in choices[name]])


def offer(option: argparse.Action, choices: Sequence[str]) -> None:
    """Let an option take one of these values. A long list of them stands in its description, not beside its name."""
    option.choices = choices
    if len(",".join(choices)) > _BESIDE:
        option.metavar = "NAME"
        if not all(choice in str(option.help) for choice in choices):
            option.help = f"{option.help} One of {', '.join(choices)}."


def _for_consoles(text: str) -> str:
    """Say what a text says of None, which nobody can type, of an option that is not given."""
    text = re.sub(r"\bNone (is|for|takes|chooses) ", lambda found: _WITHOUT[found[1]], text)
    return text.replace("None if ", "not needed if ").replace("if None", "if not given")


def given(arguments: argparse.Namespace, settings: type) -> dict[str, Any]:
    """Return the values of a dataclass's fields that were given as options."""
    return {field.name: getattr(arguments, field.name) for field in fields(settings) if hasattr(arguments, field.name)}


def attribute_texts(settings: type) -> dict[str, str]:
    """Return what the "Attributes" section of a docstring says of each field."""
    section = (settings.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |\Z)", section, flags=re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in entries}


def read_count(text: str) -> int:
    """Read a whole number that is not negative."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def read_size(text: str) -> tuple[int, int]:
    """Read a size as "32" or "24x32" (height x width)."""
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 32, or 24x32 for height x width")
    return int(found[1]), int(found[2] or found[1])


def read_options(text: str) -> dict[str, Any]:
    """Read options as a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object; write for example '{{\"eps\": 1e-6}}'")
    return value


_BESIDE = 36  # characters of the longest list of choices that stands beside the name of an option

_WITHOUT = {
    "is": "without it: ",
    "for": "without it: ",
    "takes": "without it lila takes ",
    "chooses": "without it lila chooses ",
}
"""What the help says in place of "None is" and the like."""
_KINDS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "N"),
    float: (float, "X"),
    str: (str, "TEXT"),
    tuple[int, int]: (read_size, "SIZE"),
    dict[str, Any]: (read_options, "JSON"),
}
"""The function that reads a value from the command line and the name of the value in the help, by type of field."""


def _kind(field: Field[Any]) -> Any:
    """Return the type of a field's values, without the None that some have as default."""
    kinds = get_args(field.type) if get_origin(field.type) is UnionType else (field.type,)
    return kinds[0]


def _default(field: Field[Any]) -> str:
    return "" if field.default in (None, MISSING) else f" [{field.default}]"
