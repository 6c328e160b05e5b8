"""By how much learned ranges differ from the ranges by which the images were transformed.

Images of MNIST are transformed by one generator with a known range, or left as they are (a true range of 0), and all
six ranges are learned with lila's defaults. Digits vary by themselves: they are slanted, and not all of one width. So
what is learned from images that were left as they are is the part of a range that is not an error. For each run the
error bar of the range is given too, to compare with the spread over seeds. The result of each run is one file of the
output folder, and runs whose file exists are not repeated.

    LILA_DATA=... python -m lila.benchmarks.magnitudes --out magnitudes --subset 1250 --seeds 3
    LILA_DATA=... python -m lila.benchmarks.magnitudes --out magnitudes --subset 5000 --seeds 1
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

import lila
from lila.augment.noise import Draw
from lila.benchmarks.measuring import machine
from lila.benchmarks.script import new_parser, print_result, start
from lila.data.examples import Examples
from lila.training.checkpoint import write_json

TRUE_RANGES = {"none": 0.0, "x-translation": 4 / 14, "rotation": torch.pi / 4, "shear": 0.5, "x-scale": 0.5}
"""The true range of each generator, in its own unit: 4 of 14 pixels, 45 degrees, factors between exp(-1/2) and
exp(1/2). "none" is for images as they are."""


@dataclass(frozen=True)
class Version:
    """A version of the images.

    Attributes:
        generator: the name of the generator by which the images are transformed; "none" for images as they are.
        seed: of the subset, the transformation, the network and the noise.
        subset: the number of training images.
    """

    generator: str
    seed: int
    subset: int

    def path(self, folder: Path) -> Path:
        """Return the file of its result in a folder."""
        return folder / f"{self.generator}-{self.subset}-seed{self.seed}.json"

    def images(self, part: lila.Recipe) -> tuple[lila.Task, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the task of the images as they are, and the transformed training and test images with their labels."""
        task = lila.load_data(part, in_memory=True)
        train, test = (_transformed(data, self, number) for number, data in enumerate((task.train, task.test)))
        return task, train, test

    def run(self) -> dict[str, Any]:
        """Learn all ranges from the transformed images."""
        task, train, test = self.images(lila.Recipe("mnist", subset=self.subset, seed=self.seed))
        torch.manual_seed(self.seed)
        net = lila.make_model("mlp", task.shape, len(task.classes))
        made = lila.fit(net, train, lila.Affine2d(), test=test, progress="silent", seed=self.seed)
        return {
            "ranges": dict(made.ranges),
            "range errors": made.range_errors,
            "evidence per image": made.evidence.value / self.subset,
            "test": made.test,
            "verdict": made.verdict.text(),
            "seconds": sum(record.seconds.total for record in made.history),
        }


@torch.no_grad()
def _transformed(data: Any, version: Version, part: int) -> tuple[Tensor, Tensor]:
    """Return images that are each transformed once, by noise of their own."""
    tensors = Examples(data).tensors
    assert tensors is not None
    x, y = tensors
    if version.generator == "none":
        return x, y
    augmentation = lila.Affine2d([version.generator], init=TRUE_RANGES[version.generator])
    noise = Draw(version.seed, part).uniform(torch.arange(len(x)), (1, 1), x.dtype)
    return torch.cat([augmentation(*pair)[:, 0] for pair in zip(x.split(500), noise.split(500), strict=True)]), y


def over_seeds(found: Mapping[Version, Mapping[str, Any]]) -> dict[str, Any]:
    """Return, for each version, the learned ranges beside the true one and those of images as they are.

    Args:
        found: the result of each run.
    """
    table: dict[str, Any] = {}
    for version in found:
        name = version.generator
        if name == "none":
            continue
        of_seeds = [result for other, result in found.items() if other.generator == name]
        plain = [result["ranges"][name] for other, result in found.items() if other.generator == "none"]
        learned = [result["ranges"][name] for result in of_seeds]
        errors = [(result["range errors"] or {}).get(name) for result in of_seeds]
        others = [max(v for other, v in result["ranges"].items() if other != name) for result in of_seeds]
        table[name] = {
            "true": TRUE_RANGES[name],
            "learned": learned,
            "mean": mean(learned),
            "spread over seeds": stdev(learned) if len(learned) > 1 else None,
            "error bars": errors,
            "learned from images as they are": plain,
            "largest other range": others,
        }
    return table


def main(given: Sequence[str] | None = None) -> None:
    """Do the runs that are missing, and print all results as JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--subset", type=int, default=1250, metavar="N", help="training images [1250]")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of seeds [3]")
    names = ",".join(TRUE_RANGES)
    parser.add_argument("--versions", default=names, metavar="NAMES", help=f"[{names}]")
    arguments = start(parser, given)
    found = {}
    for seed in range(arguments.seeds):
        for generator in arguments.versions.split(","):
            version = Version(generator, seed, arguments.subset)
            if not version.path(arguments.out).exists():
                arguments.out.mkdir(parents=True, exist_ok=True)
                write_json(version.path(arguments.out), version.run() | machine())
            found[version] = json.loads(version.path(arguments.out).read_text())
    runs = {version.path(Path()).stem: result for version, result in found.items()}
    print_result(arguments, {"over seeds": over_seeds(found), "runs": runs})


if __name__ == "__main__":
    main()
