"""What a network learns from few photographs in classes of unequal size, and what its evidence is made of.

Four classes of CIFAR-10 have 4, 3, 2 and 1 tenths of the training images. For each number of images and each seed,
which also draws the images, lila trains with the defaults of `lila train`, and is compared with the same network
without invariance and with the constant answer. The evidence per image is given with its two parts, fit and complexity.
The result of each run is one file of the output folder, and runs whose file exists are not repeated.

    LILA_DATA=... python -m lila.benchmarks.few_images --out few --sizes 320 --seeds 5
    LILA_DATA=... python -m lila.benchmarks.few_images --out few --sizes 320 --seeds 5 --padding zeros
    LILA_DATA=... python -m lila.benchmarks.few_images --out few --sizes 80,320,1280 --seeds 1
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import lila
from lila.augment.noise import Draw
from lila.benchmarks.script import kept_result, new_parser, print_result, start
from lila.data.images import ImageData, ImageSet
from lila.data.task import Recipe, Task, prepare, read_source

CLASSES = ("airplane", "automobile", "frog", "ship")
SHARES = (0.4, 0.3, 0.2, 0.1)
_TEST = 1_000  # test images


def photographs(size: int, seed: int) -> Task:
    """Return a number of training photographs in four classes, and 1,000 test photographs with the same shares."""
    recipe = Recipe("cifar10", seed=seed)
    data = read_source(recipe)
    numbers = [data.classes.index(name) for name in CLASSES]
    train = _imbalanced(data.train, numbers, size, Draw(seed))
    test = _imbalanced(data.test, numbers, _TEST, Draw(seed, 1))
    return prepare(ImageData(train, test, CLASSES), recipe, in_memory=True)


def _imbalanced(images: ImageSet, numbers: Sequence[int], count: int, draw: Draw) -> ImageSet:
    """Return random images of some classes, of which each has its share; the classes are numbered anew."""
    chosen, labels = [], []
    for label, (number, share) in enumerate(zip(numbers, SHARES, strict=True)):
        candidates = torch.nonzero(images.labels == number)[:, 0]
        chosen.append(candidates[draw.subset(len(candidates), round(share * count))])
        labels.append(torch.full_like(chosen[-1], label))
    return ImageSet(images.take(torch.cat(chosen)).pixels, torch.cat(labels))


def run(size: int, seed: int, settings: dict[str, Any], padding: str = "reflection") -> dict[str, Any]:
    """Train on a number of photographs; return what was learned, beside what it is compared with."""
    task = photographs(size, seed)
    torch.manual_seed(seed)
    net = lila.make_model("cnn", task.shape, len(task.classes))
    options: dict[str, Any] = {"test": task.test, "baseline": True, "progress": "silent", "seed": seed}
    made = lila.fit(net, task.train, lila.Affine2d(padding=padding), **options, **settings)
    constant, plain = made.baselines.constant, made.baselines.non_invariant
    assert constant is not None
    assert plain is not None
    assert plain.test is not None
    assert constant.test is not None
    return {
        "ranges": dict(made.model.augmentation.readable_ranges(made.shape)),
        "range errors": made.range_errors,
        "evidence per image": made.evidence.value / size,
        "fit per image": made.evidence.log_likelihood / size,
        "complexity per image": -made.evidence.complexity / size,
        "test": made.test,
        "never predicted": [CLASSES[number] for number in made.never_predicted],
        "without invariance": {
            "evidence per image": plain.evidence / size,
            "fit per image": plain.train["log_likelihood"],
            "complexity per image": plain.train["log_likelihood"] - plain.evidence / size,
            "test": plain.test,
        },
        "constant answer": {"evidence per image": constant.evidence / size, "test": constant.test},
        "verdict": made.verdict.text(),
        "largest ranges": [max(record.ranges.values()) for record in made.history],
        "precisions": dict(made.history[-1].precisions),
        "losses": [record.loss for record in made.history],
        "seconds": sum(record.seconds.total for record in made.history),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Do the runs that are missing, and print all results as JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    parser.add_argument("--sizes", default="320", metavar="N,...", help="numbers of training images [320]")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="number of seeds [5]")
    parser.add_argument("--epochs", type=int, metavar="N", help="[by the number of images]")
    parser.add_argument("--samples", type=int, metavar="N", help="views per image in the evidence [16]")
    parser.add_argument("--padding", default="reflection", help="what lies outside an image [reflection]")
    arguments = start(parser, given)
    settings = {name: getattr(arguments, name) for name in ("epochs", "samples") if getattr(arguments, name)}
    results = {}
    for size in map(int, arguments.sizes.split(",")):
        for seed in range(arguments.seeds):
            words = [str(size), arguments.padding, *(f"{key}{value}" for key, value in settings.items())]
            name = "-".join([*words, f"seed{seed}"])
            work = partial(run, size, seed, settings, arguments.padding)
            results[name] = kept_result(arguments.out / f"{name}.json", work)
    print_result(arguments, results)


if __name__ == "__main__":
    main()
