"""Write the learned augmentation for other libraries, as Python code or as JSON, or the network as a file.

For the affine family, the code for `torch` is exactly the learned distribution. The code for torchvision,
kornia and albumentations draws translation, rotation, scale and shear independently, which is the same
distribution if only one of them was learned, and close to it otherwise. `--to onnx` and `--to pt2` write the
invariant network itself, averaged over its fixed views, into a file that runs without lila.
"""

import argparse
import json
import sys
from pathlib import Path

from lila.cli.options import add_own_code_options, own_code, takes_folder, takes_path
from lila.errors import ArgumentError

EXAMPLES = """examples:
  lila export runs/digits --to torchvision
  lila export runs/digits --to kornia --out augmentation.py
  lila export runs/digits --to onnx --out network.onnx
  lila export runs/digits --json"""

NETWORKS = ("onnx", "pt2")
"""The formats of the network; everything else is a library that code is written for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila export`."""
    takes_folder(parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run"))
    parser.add_argument(
        "--to",
        metavar="TARGET",
        default="torchvision",
        help="library to write code for: torch, torchvision, kornia or albumentations for the affine family, others as "
        "the family of the run offers them; or onnx or pt2 for the network [torchvision]",
    )
    takes_path(parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file, not to standard output"))
    add_own_code_options(parser)
    parser.add_argument("--json", action="store_true", help="the parameters as JSON instead of code")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila export`."""
    from lila._util.files import replaced
    from lila.results.network_file import export_network
    from lila.training.tasks import open_run

    to_network = arguments.to in NETWORKS and not arguments.json
    if to_network and arguments.out is None:
        raise ArgumentError(f"A network is not printed: name a file for it (--out network.{arguments.to}).")
    opened, _ = open_run(arguments.run, own_code(arguments))
    if to_network:
        export_network(opened, arguments.out, arguments.to)
        return 0
    augmentation, inputs = opened.model.augmentation, opened.input_format
    if arguments.json:
        text = json.dumps(augmentation.export_json(inputs), indent=2) + "\n"
    else:
        text = augmentation.export(arguments.to, inputs)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        with replaced(arguments.out) as temporary:
            temporary.write_text(text)
    return 0
