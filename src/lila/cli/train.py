"""Learn which transformations leave the class of an image unchanged, and how far, in one training run.

DATA is a name that `lila data list` shows, or a path: a folder of images per class (with or
without train/ and test/), IDX files, CIFAR-10's binary version, .npz or .npy arrays, or an
archive of these. The test part is reported on after the last epoch and used for nothing else.
What is not given follows from the number of images. The preset `paper` has the paper's
settings for this kind of image, with a pass over all images after each epoch.
"""

import argparse
import json
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

from lila._util.memory import keep_heap
from lila.augment.families import AFFINE_2D
from lila.augment.noise import NoiseName
from lila.augment.parameterisation import ParameterisationName
from lila.augment.warp import Padding
from lila.cli.options import add_settings, given, read_count, takes_folder, takes_path
from lila.cli.show import record
from lila.cli.together import add_device_options, processes, restarted
from lila.curvature import CurvatureKind, structure_names
from lila.data.read import DIGITS
from lila.data.sources import KNOWN
from lila.data.task import Recipe, ScalingName, Task, prepare, read_source
from lila.data.transformed import VersionName
from lila.errors import ArgumentError
from lila.model.prior import PriorStructure
from lila.training.checkpoint import CHECKPOINT, read_settings
from lila.training.fit import fit, resume
from lila.training.methods import MethodName
from lila.training.presets import PRESETS, Preset, PresetName
from lila.training.progress import ProgressName
from lila.training.run import Run
from lila.training.runs import RunTask, read_task
from lila.training.settings import AveragesName, FinalName, OptimiserName, PassesName, Settings

EXAMPLES = """examples:
  lila train digits --transform partially-rotated --out runs/digits
  lila train mnist --transform translated --subset 1250 --epochs 60
  lila train photos/ --size 32 --model resnet-8-8
  lila train scans.npz --generators rotation,x-scale --method augerino"""

CHOICES: dict[str, Any] = {
    "method": MethodName,
    "optimiser": OptimiserName,
    "structure": structure_names(),
    "curvature": CurvatureKind,
    "prior": PriorStructure,
    "passes": PassesName,
    "noise": NoiseName,
    "averages": AveragesName,
    "final_evidence": FinalName,
    "transform": VersionName,
    "scaling": ScalingName,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila train`."""
    takes_path(parser.add_argument("data", metavar="DATA", help="a name or a path"))
    parser.add_argument("--model", help="a name that `lila models` lists, or package.module:function [by preset]")
    parser.add_argument("--preset", choices=[name.value for name in PresetName], default="default", help="[default]")
    takes_folder(
        parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write the run [runs/DATA-...]"),
        parser.add_argument("--data-dir", type=Path, metavar="FOLDER", help="data sets known by name [LILA_DATA]"),
    )
    add_device_options(parser)
    parser.add_argument("--workers", type=read_count, default=0, metavar="N", help="processes that read images [0]")
    parser.add_argument("--progress", choices=[name.value for name in ProgressName], default="auto", help="[auto]")
    parser.add_argument("--json", action="store_true", help="print what was learned as JSON, and nothing else")
    data = parser.add_argument_group("data")
    add_settings(data, Recipe, CHOICES, leave_out={"source", "seed", "subset"})
    data.add_argument("--subset", type=int, metavar="N", help="learn from N random training images [all]")
    augmentation = parser.add_argument_group("augmentation")
    augmentation.add_argument("--generators", metavar="NAMES", help=f"of {', '.join(g.name for g in AFFINE_2D)} [all]")
    augmentation.add_argument("--padding", choices=[p.value for p in Padding], default="zeros", help="[zeros]")
    augmentation.add_argument(
        "--init",
        type=read_numbers,
        metavar="X",
        help="range from which each generator starts, or one for each: 0.1,0.2 [0]",
    )
    augmentation.add_argument(
        "--parameterisation", choices=[p.value for p in ParameterisationName], default="identity", help="[identity]"
    )
    settings = parser.add_argument_group("training", "defaults are those of the settings; a preset may differ")
    add_settings(settings, Settings, CHOICES, leave_out={"subset"})
    settings.add_argument(
        "--gradient-subset", type=int, metavar="N", help="examples per gradient of the evidence [all, or by preset]"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `lila train`."""
    keep_heap()
    with processes(arguments) as (ranks, where):
        task, preset = make_task(arguments)
        settings = given_settings(arguments, preset, task.examples[0])
        run_task = describe_run(arguments, task, preset, settings)
        folder = arguments.out or default_folder(run_task, settings)
        if (folder / CHECKPOINT).exists() and not (restarted() and is_same_run(folder, run_task, settings)):
            raise ArgumentError(
                f"{folder} already holds a run. Go on with it by `lila resume {quote(str(folder))}`, or give another "
                "--out."
            )
        is_new = not folder.exists()
        try:
            made = train(arguments, task, run_task, settings, folder, where, ranks.first)
        except Exception:  # whatever it was, a run that has nothing to go on from is not left behind
            if is_new and ranks.first and not (folder / CHECKPOINT).exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise
    if ranks.first:
        print(json.dumps(record(made) | {"run": str(folder)}, indent=2) if arguments.json else f"\n{made.summary()}")
        note(arguments, f"\nThe run is in {folder}: try `lila show {quote(str(folder))} --picture ranges.png`.")
    return 0


def make_task(arguments: argparse.Namespace) -> tuple[Task, Preset]:
    """The data made ready, and the preset for its kind of images."""
    recipe = Recipe(source=source(arguments.data), **given_recipe(arguments))
    data = read_source(recipe, arguments.data_dir)
    preset = PRESETS[PresetName(arguments.preset), data.train.shape[0] == 3]
    return prepare(data, recipe, workers=arguments.workers), preset


def describe_run(arguments: argparse.Namespace, task: Task, preset: Preset, settings: Settings) -> RunTask:
    """What the run is made from."""
    augmentation = {
        "generators": arguments.generators and [name.strip() for name in arguments.generators.split(",")],
        "padding": arguments.padding,
        "init": arguments.init,
        "parameterisation": arguments.parameterisation,
    }
    return RunTask(
        task.recipe,
        None if arguments.data_dir is None else str(arguments.data_dir.resolve()),
        arguments.model or preset.model,
        augmentation,
        settings.seed,
        task.shape,
        task.classes,
        task.scaling,
        task.examples,
    )


def train(
    arguments: argparse.Namespace,
    task: Task,
    run_task: RunTask,
    settings: Settings,
    folder: Path,
    where: str,
    writes: bool,
) -> Run:
    """Train the network of a run in its folder, or go on with it if torchrun has started this anew."""
    network, augmentation = run_task.network(), run_task.made_augmentation()
    common: dict[str, Any] = {
        "test": task.test,
        "progress": "silent" if arguments.json else arguments.progress,
        "device": where,
    }
    if (folder / CHECKPOINT).exists():
        return resume(folder, network, task.train, augmentation, **common)
    if writes:
        run_task.write(folder)
    return fit(network, task.train, augmentation, folder=folder, settings=settings, **common)


def is_same_run(folder: Path, run_task: RunTask, settings: Settings) -> bool:
    """Whether the run in a folder is the one that this command began before it was started anew."""
    before = replace(read_settings(folder), microbatch=settings.microbatch, memory=settings.memory)
    return before == settings.resolved(run_task.examples[0]) and read_task(folder) == run_task


def source(text: str) -> str:
    """A name as it is, a path made absolute, so that a run finds its data from any folder."""
    return text if text in (DIGITS, *KNOWN) or not Path(text).exists() else str(Path(text).resolve())


def given_recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    """The recipe's fields that were given."""
    return {name: value for name, value in given(arguments, Recipe).items() if value is not None}


def given_settings(arguments: argparse.Namespace, preset: Preset, examples: int) -> Settings:
    """The settings: those given, else the preset's, else the defaults."""
    changes = given(arguments, Settings)
    changes.pop("subset", None)  # that of the data
    if arguments.gradient_subset is not None:
        changes["subset"] = arguments.gradient_subset
    elif preset.settings.get("subset", 0) >= examples:
        changes["subset"] = None
    return Settings.from_dict(asdict(Settings()) | preset.settings | changes)


def read_numbers(text: str) -> float | list[float]:
    """One number, or several with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, nor several with commas between them") from None
    return numbers[0] if len(numbers) == 1 else numbers


def default_folder(task: RunTask, settings: Settings) -> Path:
    """A folder named after what is run."""
    name = Path(task.recipe.source).name.partition(".")[0]
    parts = [name, task.recipe.transform, task.model.replace(":", "."), settings.method, f"seed{settings.seed}"]
    return Path("runs") / "-".join(part for part in parts if part != "original")


def note(arguments: argparse.Namespace, text: str) -> None:
    """Tell a person something, on standard error so that it is never part of a result."""
    if not arguments.json and arguments.progress != "silent":
        print(text, file=sys.stderr)
