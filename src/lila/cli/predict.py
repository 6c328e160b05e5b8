"""Predict the classes of images by the invariant network of a run, with their probabilities."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from lila._util.allocation import Allocation
from lila._util.files import replaced
from lila._util.memory import available_bytes
from lila._util.spreadsheets import safe_cell
from lila.cli.options import add_own_code_options, own_code, takes_folder, takes_path
from lila.data.image_files import SUFFIXES, ImageFiles, image_paths
from lila.data.images import SERIES_DIMENSIONS, ImageSet
from lila.errors import DataError, NumericalError
from lila.model.invariant import InvariantModel
from lila.training.description import TaskDescription
from lila.training.run import Run
from lila.training.tasks import open_run

EXAMPLES = """examples:
  lila predict runs/photos new/ > classes.csv
  lila predict runs/photos one.png two.png --json
  lila predict runs/photos new/ --posterior"""

_VIEWS = 2_000  # transformed images in memory at a time, at most
_SHARE = 0.25  # the share of the free memory that their forward pass may take
_JACOBIANS = 2**26  # entries of Jacobians in memory at a time, about


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila predict`."""
    takes_folder(parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run"))
    takes_path(
        parser.add_argument("images", metavar="IMAGES", type=Path, nargs="+", help="image files, or folders of them"),
        parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file instead of standard output"),
    )
    parser.add_argument("--resize", action="store_true", help="resize images of another size than the run's")
    parser.add_argument(
        "--posterior",
        action="store_true",
        help="average over the posterior of the weights, if the run was trained with --save-posterior",
    )
    add_own_code_options(parser)
    parser.add_argument("--json", action="store_true", help="JSON instead of CSV")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila predict`."""
    opened, task = open_run(arguments.run, own_code(arguments))
    if task is None:
        raise DataError(f"{arguments.run} was not made by `lila train`: how its images were scaled is not known.")
    if len(task.shape) == SERIES_DIMENSIONS:
        raise DataError(
            f"{arguments.run} classifies time series, but this command reads image files. Predict in Python: "
            "lila.load(folder).model.eval()(series), with series scaled as task.scaling in its run.json says."
        )
    paths = tuple(_image_paths(arguments.images))
    channels, height, width = task.shape
    files = ImageFiles(paths, channels, (height, width), arguments.resize or task.recipe.size is not None)
    text = (_json if arguments.json else _csv)(
        paths, probabilities(opened, task, files, by_posterior=arguments.posterior), task.classes
    )
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        with replaced(arguments.out) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    return 0


@torch.no_grad()
def probabilities(opened: Run, task: TaskDescription, files: ImageFiles, *, by_posterior: bool = False) -> Tensor:
    """Return the class probabilities of images, shape (n, c).

    Args:
        opened: the run.
        task: what it was made from.
        files: the images.
        by_posterior: whether to average over the posterior of the weights.

    Raises:
        NumericalError: a probability is not finite.
    """
    images = ImageSet(files, torch.zeros(len(files.paths), dtype=torch.int64))
    views = _views_at_once(opened.model, task.shape)
    size = max(views // opened.model.samples, 1)

    def predict(x: Tensor) -> Tensor:
        if by_posterior:
            return opened.posterior.predict(x)
        return opened.likelihood.predict(_outputs(opened.model, x, views))

    if by_posterior:
        weights = sum(layer.size for layer in opened.posterior.curvature.layers)
        size = max(min(size, _JACOBIANS // (weights * len(task.classes))), 1)
    batches = torch.arange(len(images)).split(size)
    found = torch.cat([predict(task.scaling(images.images(batch))) for batch in batches])
    wrong = torch.nonzero(~found.isfinite().all(1)).flatten().tolist()
    if wrong:
        raise NumericalError(f"The network's prediction for {files.paths[wrong[0]]} is not finite.")
    return found


def _views_at_once(model: InvariantModel, shape: tuple[int, ...]) -> int:
    """Return how many views of an image the network can take at once, from the memory that one view takes."""
    x = torch.zeros(1, *shape, dtype=next(model.parameters()).dtype)
    with Allocation() as one_view:
        model(x, model.fixed_noise(x)[:, :1])
    fit = int(_SHARE * available_bytes(x.device) / max(one_view.peak, 1))
    return max(min(_VIEWS, fit), 1)


def _outputs(model: InvariantModel, x: Tensor, views: int) -> Tensor:
    """Return the outputs under the noise of evaluation mode, with about so many views in memory at a time."""
    x = x.to(next(model.parameters()).dtype)
    noise = model.fixed_noise(x)
    parts = noise.split(max(views // len(x), 1), dim=1)
    return torch.stack([model(x, part) * (part.shape[1] / noise.shape[1]) for part in parts]).sum(0)


def _image_paths(given: list[Path]) -> Iterator[Path]:
    for path in given:
        if not path.exists():
            raise DataError(f"{path} does not exist.")
        if not path.is_file() and not path.is_dir():
            raise DataError(f"{path} cannot be read: it is neither a regular file nor a folder.")
        found = image_paths(path) if path.is_dir() else [path]
        if not found:
            raise DataError(f"{path} holds no image ({', '.join(sorted(SUFFIXES))}).")
        yield from found


def _csv(paths: tuple[Path, ...], predicted: Tensor, classes: tuple[str, ...]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", "class", "probability", *map(safe_cell, classes)])
    for path, row in zip(paths, predicted.tolist(), strict=True):
        predicted_class = safe_cell(classes[row.index(max(row))])
        writer.writerow([safe_cell(str(path)), predicted_class, f"{max(row):.6g}", *(f"{p:.6g}" for p in row)])
    return text.getvalue()


def _json(paths: tuple[Path, ...], predicted: Tensor, classes: tuple[str, ...]) -> str:
    rows = [
        {
            "file": str(path),
            "class": classes[row.index(max(row))],
            "probabilities": dict(zip(classes, row, strict=True)),
        }
        for path, row in zip(paths, predicted.tolist(), strict=True)
    ]
    return json.dumps(rows, indent=2) + "\n"
