"""By how much learned ranges differ from the ranges by which the images were transformed.

Images of MNIST are transformed by one generator with a known range, or left as they are (a true range of 0), and all
six ranges are learned with lila's defaults. Digits vary by themselves: they are slanted, and not all of one width. So
what is learned from images that were left as they are is the part of a range that is not an error. For each run the
error bar of the range is given too, to compare with the spread over seeds.

With `--held` the range of that generator is not learned but held at each of the values, as multiples of the true range.
That shows which range has the most evidence, and which one predicts the test images best, whatever the learning does.
The result of each run is one file of the output folder, and runs whose file exists are not repeated.

    LILA_DATA=... python -m lila.benchmarks.magnitudes --out magnitudes --subset 1250 --seeds 3
    LILA_DATA=... python -m lila.benchmarks.magnitudes --out magnitudes --versions x-translation --held 0.5,1,1.5,2,2.5
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

import lila
from lila.augment.noise import Draw
from lila.benchmarks.script import kept_result, new_parser, print_result, start
from lila.data.examples import Examples

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
        epochs: the number of epochs; None for the default.
        held: the range at which the generator is held, as a multiple of the true one; None to learn all ranges.
    """

    generator: str
    seed: int
    subset: int
    epochs: int | None = None
    held: float | None = None

    def path(self, folder: Path) -> Path:
        """Return the file of its result in a folder."""
        words = [self.generator, str(self.subset), f"seed{self.seed}"]
        words += [] if self.epochs is None else [f"epochs{self.epochs}"]
        words += [] if self.held is None else [f"held{self.held:g}"]
        return folder / f"{'-'.join(words)}.json"

    def augmentation(self) -> lila.Affine2d:
        """Return the transformations with the ranges to start from, or to stay at."""
        if self.held is None:
            return lila.Affine2d()
        return lila.Affine2d([self.generator], init=self.held * TRUE_RANGES[self.generator])

    def run(self) -> dict[str, Any]:
        """Learn all ranges from the transformed images, or train the weights with the range that is held."""
        task = lila.load_data(lila.Recipe("mnist", subset=self.subset, seed=self.seed), in_memory=True)
        train, test = (_transformed(data, self, part) for part, data in enumerate((task.train, task.test)))
        torch.manual_seed(self.seed)
        net = lila.make_model("mlp", task.shape, len(task.classes))
        settings: dict[str, Any] = {"method": "lila" if self.held is None else "fixed"}
        settings |= {"epochs": self.epochs, "seed": self.seed}
        made = lila.fit(net, train, self.augmentation(), test=test, progress="silent", **settings)
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
    parser.add_argument("--epochs", type=int, metavar="N", help="[by the number of images]")
    parser.add_argument("--held", metavar="X,...", help="hold the range at these multiples of the true one")
    names = ",".join(TRUE_RANGES)
    parser.add_argument("--versions", default=names, metavar="NAMES", help=f"[{names}]")
    arguments = start(parser, given)
    held = [None] if arguments.held is None else [float(multiple) for multiple in arguments.held.split(",")]
    found = {}
    for seed, generator, multiple in product(range(arguments.seeds), arguments.versions.split(","), held):
        version = Version(generator, seed, arguments.subset, arguments.epochs, multiple)
        found[version] = kept_result(version.path(arguments.out), version.run)
    runs = {version.path(Path()).stem: result for version, result in found.items()}
    print_result(arguments, ({} if arguments.held else {"over seeds": over_seeds(found)}) | {"runs": runs})


if __name__ == "__main__":
    main()
