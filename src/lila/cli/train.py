"""Learn which transformations leave the class of an image unchanged, and how far, in one training run.

DATA is a name that `lila data list` shows, or a path: a folder of images per class (with or
without train/ and test/), IDX files, CIFAR-10's binary version, .npz or .npy arrays, or an
archive of these. Time series come as arrays or .ts files. The test part is reported on after the
last epoch and used for nothing else. Then the same network is trained without invariance, to
compare with (not with --no-baseline). What is not given follows from the kind and the number of
inputs. The preset `paper` has the paper's settings for this kind of image, with a pass over all
images after each epoch.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from lila._util.choices import check_count
from lila._util.memory import keep_heap, readable_bytes
from lila._util.ranks import Ranks
from lila.augment.registry import takes_argument
from lila.cli.interruption import resumable
from lila.cli.options import given, own_code
from lila.cli.processes import processes, restarted
from lila.cli.seeds import seed_folder, show_seeds, train_seeds
from lila.cli.show import record
from lila.cli.train_options import add_arguments
from lila.data.read import known_names
from lila.data.task import Recipe, Task, prepare, read_source
from lila.data.transformed import VersionName
from lila.errors import ArgumentError
from lila.training.checkpoint import CHECKPOINT
from lila.training.choices import ArithmeticName
from lila.training.description import AugmentationDescription, TaskDescription, read_description
from lila.training.lock import FolderInUseError
from lila.training.presets import Preset, PresetName, find_preset
from lila.training.run import Run
from lila.training.settings import Settings
from lila.training.tasks import discard_unfinished, train_task

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """examples:
  lila train digits --transform partially-rotated --out runs/digits
  lila train mnist --transform translated --subset 1250 --epochs 60
  lila train photos/ --size 32 --model resnet-8-8
  lila train photos/ --size 32 --seeds 5 --jobs 2
  lila train mnist --transform scaled --augment correlated-affine
  lila train beats.npz
  lila train scans.npz --generators rotation,x-scale --method augerino"""


def keep_posterior(arguments: argparse.Namespace, made: Run, folder: Path) -> None:
    """Write the posterior of a finished run if that was asked for, and say how large it is."""
    if arguments.save_posterior:
        note(arguments, f"The posterior takes {readable_bytes(made.save_posterior(folder))}.")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila train`."""
    if arguments.seeds is not None:
        return run_seeds(arguments)
    if arguments.jobs != 1:
        raise ArgumentError("--jobs trains with several seeds side by side, so it needs --seeds as well.")
    with processes(arguments) as (ranks, where):
        data, preset = make_data(arguments)
        made, folder = train(arguments, data, preset, ranks, where)
    if ranks.first:
        print(json.dumps(record(made) | {"run": str(folder)}, indent=2) if arguments.json else f"\n{made.summary()}")
        keep_posterior(arguments, made, folder)
        note(arguments, f"\nThe run is in {folder}: try `lila show {quote(str(folder))} --picture ranges.png`.")
    return 0


def run_seeds(arguments: argparse.Namespace) -> int:
    """Run `lila train --seeds N`."""
    check_count("seeds", arguments.seeds)
    check_count("jobs", arguments.jobs)
    if "RANK" in os.environ:
        raise ArgumentError(
            "--seeds trains runs side by side in processes of its own, so it does not go with torchrun."
        )
    data, preset = make_data(arguments)
    task = describe_task(arguments, data, preset)
    first = given_settings(arguments, preset, data.examples[0])
    folder = arguments.out or default_folder(task, first).with_name(
        default_folder(task, first).name.removesuffix(f"-seed{first.seed}") + "-seeds"
    )
    works = {}
    for seed in range(first.seed, first.seed + arguments.seeds):
        changes = {"seed": seed, "out": seed_folder(folder, seed), "progress": "silent"}
        works[seed] = partial(train_seed, argparse.Namespace(**(vars(arguments) | changes)))
    silent = arguments.json or arguments.progress == "silent"
    records = train_seeds(works, arguments.jobs, silent=silent)
    show_seeds(records, task.augmentation.make(own_code(arguments)), task.shape, arguments.json)
    note(arguments, f"\nThe runs are in {folder}: try `lila report {quote(str(folder))}/seed* --out report.html`.")
    return 0


def train_seed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train with one seed, or go on where the same command was interrupted; return what was learned, as JSON."""
    with processes(arguments) as (ranks, where):
        data, preset = make_data(arguments)
        made, folder = train(arguments, data, preset, ranks, where)
    keep_posterior(arguments, made, folder)
    return record(made) | {"run": str(folder)}


def train(arguments: argparse.Namespace, data: Task, preset: Preset, ranks: Ranks, device: str) -> tuple[Run, Path]:
    """Train a run; return it and its folder."""
    keep_heap()
    settings = given_settings(arguments, preset, data.examples[0])
    task = describe_task(arguments, data, preset)
    folder = arguments.out or default_folder(task, settings)
    goes_on = restarted() or arguments.seeds is not None
    if (folder / CHECKPOINT).exists() and not (goes_on and is_same_run(folder, task, settings)):
        raise ArgumentError(
            f"{folder} already holds a run. Go on with it by `lila resume {quote(str(folder))}`, or give another --out."
        )
    is_new = not folder.exists()
    progress = "silent" if arguments.json else arguments.progress
    own = own_code(arguments)
    options = {"baseline": arguments.baseline, "progress": progress, "device": device}
    try:
        with resumable(folder, own, first=ranks.first):
            return train_task(task, data, settings, folder, own=own, **options), folder
    except FolderInUseError:
        raise
    except Exception:  # whatever it was, a run that has nothing to go on from is not left behind
        if is_new and ranks.first:
            discard_unfinished(folder)
        raise


def make_data(arguments: argparse.Namespace) -> tuple[Task, Preset]:
    """Make the data ready, and choose the preset for its kind of images."""
    recipe = Recipe(source=source(arguments.data), **given_recipe(arguments))
    data = read_source(recipe, arguments.data_dir)
    preset = find_preset(PresetName(arguments.preset), data.train.shape)
    return prepare(data, recipe, workers=arguments.workers), preset


def describe_task(arguments: argparse.Namespace, data: Task, preset: Preset) -> TaskDescription:
    """Describe what the run is made from."""
    augmentation = {
        "generators": arguments.generators and [name.strip() for name in arguments.generators.split(",")],
        "padding": arguments.padding,
        "init": arguments.init,
        "parameterisation": arguments.parameterisation,
    }
    family = arguments.augment or preset.augmentation
    moved = data.recipe.transform != VersionName.ORIGINAL  # such images have black around them already
    if preset.surroundings is not None and not moved and takes_argument(family, "padding"):
        augmentation["padding"] = arguments.padding or preset.surroundings.value
    described = AugmentationDescription(
        family, {name: value for name, value in augmentation.items() if value is not None}
    )
    return TaskDescription.of(data, arguments.model or preset.model, described, arguments.data_dir)


def is_same_run(folder: Path, task: TaskDescription, settings: Settings) -> bool:
    """Return whether the run in a folder is the one that this command began before it was started anew."""
    description = read_description(folder)
    before = replace(description.settings, microbatch=settings.microbatch, memory=settings.memory)
    if settings.arithmetic == ArithmeticName.AUTO:  # the run has what it was settled to
        before = replace(before, arithmetic=settings.arithmetic)
    return before == settings.resolved(task.examples[0]) and description.task == task


def source(text: str) -> str:
    """Return a name as it is, a path made absolute, so that a run finds its data from any folder."""
    return text if text in known_names() or not Path(text).exists() else str(Path(text).resolve())


def given_recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that were given."""
    return {name: value for name, value in given(arguments, Recipe).items() if value is not None}


def given_settings(arguments: argparse.Namespace, preset: Preset, examples: int) -> Settings:
    """Return the settings that were given, else those of the preset, else the defaults."""
    changes = given(arguments, Settings)
    if preset.settings.get("gradient_examples", 0) >= examples:
        changes.setdefault("gradient_examples", None)  # the preset asks for more examples than there are
    return Settings.from_dict(asdict(Settings()) | preset.settings | changes)


def default_folder(task: TaskDescription, settings: Settings) -> Path:
    """Return a folder named after the data, the network, the augmentation, the method and the seed."""
    name = Path(task.recipe.source).name.partition(".")[0]
    model, family = (made.replace(":", ".").replace(",", "-") for made in (task.model, task.augmentation.family))
    words = [name, task.recipe.transform, model, family, settings.method, f"seed{settings.seed}"]
    return Path("runs") / "-".join(word for word in words if word not in ("original", "affine"))


def note(arguments: argparse.Namespace, text: str) -> None:
    """Print a remark to standard error, so that it is never part of a result."""
    if not arguments.json and arguments.progress != "silent":
        print(text, file=sys.stderr)
