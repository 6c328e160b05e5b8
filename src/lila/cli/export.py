"""Write the learned augmentation for other libraries, as Python code or as JSON.

For the affine family, the code for `torch` is exactly the learned distribution. The code for torchvision,
kornia and albumentations draws translation, rotation, scale and shear independently, which is the same
distribution if only one of them was learned, and close to it otherwise.
"""

import argparse
import json
import sys
from pathlib import Path

from lila.cli.options import add_own_code_options, own_code, takes_folder, takes_path

EXAMPLES = """examples:
  lila export runs/digits --to torchvision
  lila export runs/digits --to kornia --out augmentation.py
  lila export runs/digits --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila export`."""
    takes_folder(parser.add_argument("run", type=Path, help="folder of the run"))
    parser.add_argument(
        "--to",
        metavar="LIBRARY",
        default="torchvision",
        help="library to write code for: torch, torchvision, kornia or albumentations for the affine family, others as "
        "the family of the run offers them [torchvision]",
    )
    takes_path(parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file, not to standard output"))
    add_own_code_options(parser)
    parser.add_argument("--json", action="store_true", help="the parameters as JSON instead of code")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila export`."""
    from lila._util.files import replaced
    from lila.augment import InputFormat
    from lila.training.tasks import open_run

    opened, task = open_run(arguments.run, own_code(arguments))
    augmentation = opened.model.augmentation
    channels = opened.shape[0]
    mean, std = ((0.0,) * channels, (1.0,) * channels) if task is None else (task.scaling.mean, task.scaling.std)
    inputs = InputFormat(opened.shape, mean, std)
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
