"""List the families of transformations known by name, with their ranges and units.

`lila train --augment NAME` chooses a family, and NAME,NAME applies several, one after the other.
Your own family is given as package.module:Class, a subclass of lila.Augmentation.
"""

import argparse
import json
from typing import Any

EXAMPLES = """examples:
  lila augmentations
  lila augmentations --shape 3x32x32 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila augmentations`."""
    parser.add_argument("--shape", metavar="CxHxW", help="list only families that fit inputs of this shape")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila augmentations`."""
    from lila.augment.registry import augmentation_names, augmentation_titles, fitting_families, make_augmentation
    from lila.errors import ArgumentError

    names = augmentation_names()
    if arguments.shape is not None:
        sides = arguments.shape.split("x")
        if not all(side.isdigit() and int(side) for side in sides):
            raise ArgumentError(
                f"{arguments.shape!r} is not the shape of an input; write its sides with x between them: 3x32x32."
            )
        names = fitting_families(tuple(map(int, sides)))
    titles = augmentation_titles()
    rows: list[dict[str, Any]] = []
    for name in names:
        try:
            made = make_augmentation(name)
        except ArgumentError as error:  # a family of the user's own that needs arguments
            rows.append({"name": name, "ranges": [], "unit": "", "about": str(error)})
            continue
        rows.append({"name": name, "ranges": list(made.ranges), "unit": made.unit, "about": titles[name]})
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        unit = f" ({row['unit']})" if row["unit"] else ""
        print(f"{row['name']}\n    {row['about']}\n    {', '.join(row['ranges'])}{unit}")
    return 0
