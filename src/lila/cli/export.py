"""Write the learned augmentation for other libraries, as Python code or as JSON.

`torch` is the learned distribution itself; torchvision, kornia and albumentations draw translation,
rotation, scale and shear on their own, which is the same for one of them and close to it for several.
"""

import argparse
import json
import sys
from pathlib import Path

from lila.cli.options import add_own_model_option, takes_folder, takes_path

EXAMPLES = """examples:
  lila export runs/digits --to torchvision
  lila export runs/digits --to kornia --out augmentation.py
  lila export runs/digits --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila export`."""
    takes_folder(parser.add_argument("run", type=Path, help="folder of the run"))
    from lila.results.export import TargetName

    targets = [target.value for target in TargetName]
    parser.add_argument("--to", choices=targets, default="torchvision", help="library to write code for [torchvision]")
    takes_path(parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file, not to standard output"))
    add_own_model_option(parser)
    parser.add_argument("--json", action="store_true", help="the parameters as JSON instead of code")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila export`."""
    from lila._util.files import replaced
    from lila.results.export import export_code, export_json
    from lila.results.export.parameters import run_parameters
    from lila.training.tasks import open_run

    opened, task = open_run(arguments.run, arguments.model)
    channels = opened.shape[0]
    mean, std = ((0.0,) * channels, (1.0,) * channels) if task is None else (task.scaling.mean, task.scaling.std)
    affine, ranges = run_parameters(opened, mean, std), dict(opened.ranges)
    if arguments.json:
        text = json.dumps(export_json(affine, ranges), indent=2) + "\n"
    else:
        text = export_code(arguments.to, affine, ranges)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        with replaced(arguments.out) as temporary:
            temporary.write_text(text)
    return 0
