"""Compare lila with related systems on images whose transformation is known.

Every system gets the same images, network, views and epochs, on one thread of this machine. The table
tells the range that each recovers, test scores, whether it needs validation data or several runs,
whether it finds something else when ranges are written as 1/eta, and its time in units of lila's. Results
are kept: starting the command again repeats nothing that is finished.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lila.cli.options import offer, takes_folder, takes_path
from lila.errors import ArgumentError

if TYPE_CHECKING:
    from lila.compare.system import Conditions

EXAMPLES = """examples:
  lila compare digits --transform partially-rotated
  lila compare digits --transform partially-rotated --systems augerino,search --seeds 3
  lila compare mnist --transform scaled --subset 1000 --out comparisons/scaled
  lila compare --list"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila compare`."""
    from lila.data.transformed import VersionName

    takes_path(parser.add_argument("data", metavar="DATA", nargs="?", help="a data set, as in `lila train`"))
    parser.add_argument("--list", action="store_true", help="list the systems with their papers, and run nothing")
    offer(
        parser.add_argument("--transform", help="the transformed version, as in `lila train`."),
        [name.value for name in VersionName],
    )
    parser.add_argument("--subset", type=int, metavar="N", help="learn from N random training images [all]")
    parser.add_argument(
        "--systems", metavar="NAMES", help="some systems, with commas between them; lila is added [all]"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1 [1]")
    parser.add_argument("--model", default="mlp", metavar="NAME", help="the network [mlp]")
    parser.add_argument("--width", type=int, default=100, metavar="N", help="hidden units of the network mlp [100]")
    parser.add_argument("--epochs", type=int, default=40, metavar="N", help="[40]")
    parser.add_argument("--batch-size", type=int, default=50, metavar="N", help="[50]")
    parser.add_argument("--samples", type=int, default=8, metavar="N", help="views of an image [8]")
    parser.add_argument(
        "--no-inverse",
        dest="inverse",
        action="store_false",
        help="do not ask whether 1/eta changes an answer, unless it is known",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of PyTorch [1]")
    takes_folder(
        parser.add_argument("--out", type=Path, metavar="FOLDER", help="of results and pages [comparisons/DATA-...]"),
        parser.add_argument("--data-dir", type=Path, metavar="FOLDER", help="data sets known by name [LILA_DATA]"),
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila compare`."""
    import torch

    from lila._util.choices import check_count
    from lila._util.memory import keep_heap
    from lila.compare.page import Comparison, write_pages
    from lila.compare.registry import SYSTEMS, choose_systems
    from lila.compare.runner import run_systems
    from lila.reproduce.engine.store import Store, rounded

    if arguments.list:
        rows = {name: {"title": system.title, "paper": system.paper} for name, system in SYSTEMS.items()}
        lines = [f"{name:<21}{row['title']:<36}{row['paper']}" for name, row in rows.items()]
        print(json.dumps(rows, indent=2, ensure_ascii=False) if arguments.json else "\n".join(lines))
        return 0
    for name in ("seeds", "width", "epochs", "batch_size", "samples", "threads"):
        check_count(name, getattr(arguments, name))
    if arguments.data is None or arguments.transform in (None, "original"):
        raise ArgumentError(
            "A comparison needs images whose transformation is known: lila compare digits --transform "
            "partially-rotated."
        )
    systems = choose_systems(arguments.systems)
    keep_heap()
    torch.set_num_threads(arguments.threads)
    folder = arguments.out or Path("comparisons") / f"{Path(arguments.data).name}-{arguments.transform}"

    def conditions_of(seed: int) -> "Conditions":
        return make_conditions(arguments, seed)

    def note(text: str) -> None:
        if not arguments.json:
            print(text, file=sys.stderr, flush=True)

    store = Store(folder / "results")
    entries = run_systems(systems, conditions_of, arguments.seeds, store, inverse=arguments.inverse, note=note)
    comparison = Comparison.of(conditions_of(0), systems, entries, arguments.seeds)
    write_pages(comparison, folder)
    print(json.dumps(rounded(comparison.data()), indent=2) if arguments.json else comparison.text())
    note(f"\nWritten to {folder}: comparison.md, .png, .html and .json.")
    return 0


def make_conditions(arguments: argparse.Namespace, seed: int) -> "Conditions":
    """Read the data of a seed, and return what all systems share."""
    from lila.compare.system import Conditions
    from lila.data.task import Recipe, load_data

    recipe = Recipe(arguments.data, arguments.transform, arguments.subset, seed=seed)
    task = load_data(recipe, arguments.data_dir, in_memory=True)
    if task.test is None:
        raise ArgumentError(f"{arguments.data} has no test images, on which systems could be compared.")
    names = ("model", "width", "epochs", "batch_size", "samples")
    chosen = {name: getattr(arguments, name) for name in names}
    return Conditions(task, seed=seed, weight_samples=min(2, arguments.samples), **chosen)
