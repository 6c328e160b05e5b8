"""List the networks known by name, with their numbers of parameters for a shape of images or time series.

Networks of the timm library are given as timm:NAME, as in timm:resnet18; group norm takes the
place of batch norm in them. Your own network is given as package.module:function. The function
gets the shape of an input, (channels, height, width) of an image, and the number of classes, and
returns a torch.nn.Module.
"""

import argparse
import json

EXAMPLES = """examples:
  lila models
  lila models --shape 3x32x32 --classes 100 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila models`."""
    parser.add_argument("--shape", default="1x28x28", metavar="CxHxW", help="of an image, or CxT of a series [1x28x28]")
    parser.add_argument("--classes", type=int, default=10, metavar="N", help="number of classes [10]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila models`."""
    from lila._util.choices import check_count
    from lila.errors import ArgumentError
    from lila.networks.registry import MODELS, make_model

    sides = arguments.shape.split("x")
    if len(sides) not in (2, 3) or not all(side.isdigit() and int(side) for side in sides):
        raise ArgumentError(
            f"{arguments.shape!r} is not the shape of an image; write channels x height x width: 3x32x32. Of a time "
            "series, write channels x time: 1x150."
        )
    check_count("classes", arguments.classes)
    rows = []
    for name, (about, _) in MODELS.items():
        try:
            net = make_model(name, tuple(map(int, sides)), arguments.classes)
            parameters: int | None = sum(p.numel() for p in net.parameters())
        except ArgumentError as error:  # it does not take inputs of this shape
            parameters, about = None, str(error)
        rows.append({"name": name.value, "parameters": parameters, "about": about})
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        count = "-" if row["parameters"] is None else f"{row['parameters']:,}"
        print(f"{row['name']:<13}{count:>10}  {row['about']}")
    return 0
