"""The options of `lila train`, in groups: first the few that most runs need, then the others by what they are about."""

import argparse
from math import isfinite
from pathlib import Path
from typing import Any

from lila.augment import make_augmentation
from lila.augment.noise import NoiseName
from lila.augment.parameterisation import PARAMETERISATIONS
from lila.augment.warp import Padding
from lila.cli.options import add_settings, offer, read_count, takes_folder, takes_path
from lila.cli.processes import add_device_options
from lila.cli.seeds import add_seed_options
from lila.curvature import CurvatureKind, UnknownName, structure_names
from lila.data.task import Recipe, ScalingName
from lila.data.transformed import VersionName
from lila.model.prior import PriorMean, PriorStructure
from lila.training.choices import (
    OPTIMISERS,
    SCHEDULES,
    ArithmeticName,
    AveragesName,
    FinalName,
    PassesName,
    PrecisionSteps,
    ScheduleEvery,
)
from lila.training.methods import MethodName
from lila.training.presets import PresetName
from lila.training.progress import ProgressName
from lila.training.settings import Settings

CHOICES: dict[str, Any] = {
    "method": MethodName,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "schedule_every": ScheduleEvery,
    "structure": structure_names(),
    "curvature": CurvatureKind,
    "prior": PriorStructure,
    "prior_mean": PriorMean,
    "unknown": UnknownName,
    "passes": PassesName,
    "noise": NoiseName,
    "averages": AveragesName,
    "arithmetic": ArithmeticName,
    "precision_steps": PrecisionSteps,
    "final_evidence": FinalName,
    "transform": VersionName,
    "scaling": ScalingName,
}
"""The names that a setting is chosen from."""

FIRST = ("epochs",)
COMPARED = ("method", "seed")
VIEWS = ("samples", "weight_samples", "noise", "averages")
WEIGHTS = (
    "batch_size",
    "lr",
    "lr_end",
    "schedule",
    "schedule_options",
    "schedule_every",
    "optimiser",
    "optimiser_options",
    "momentum",
    "arithmetic",
    "weight_decay",
)
EVIDENCE = (
    "passes",
    "burn_in",
    "hyper_every",
    "hyper_batch",
    "eta_lr",
    "eta_lr_end",
    "hyper_lr",
    "precision_steps",
    "probes",
    "gradient_probes",
    "gradient_examples",
    "final_evidence",
    "eta_reward",
)
CURVATURE = ("structure", "curvature", "unknown", "prior", "prior_mean", "precision")
MACHINE = ("memory", "microbatch", "checkpoint_every")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila train`."""
    _add_first(parser.add_argument_group("what most runs need"))
    _add_data(parser.add_argument_group("data"))
    _add_transformations(parser.add_argument_group("transformations", "defaults are those of the family"))
    _add_comparison(parser.add_argument_group("other methods and seeds, to compare with"))
    _add_output(parser.add_argument_group("what is printed and kept"))
    weights = parser.add_argument_group("training of the weights", "what is not given follows from the data")
    weights.add_argument("--preset", choices=[name.value for name in PresetName], default="default", help="[default]")
    add_settings(weights, Settings, WEIGHTS, CHOICES)
    add_settings(parser.add_argument_group("learning by the evidence"), Settings, EVIDENCE, CHOICES)
    add_settings(parser.add_argument_group("curvature and prior"), Settings, CURVATURE, CHOICES)
    machine = parser.add_argument_group("the machine")
    add_device_options(machine)
    add_settings(machine, Settings, MACHINE, CHOICES)


def add_posterior_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that keeps the posterior."""
    parser.add_argument(
        "--save-posterior", action="store_true", help="keep the posterior, for lila predict --posterior"
    )


def read_numbers(text: str) -> float | list[float]:
    """Read one number, or several with commas between them."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, nor several with commas between them") from None
    if not all(map(isfinite, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} is not finite")
    return numbers[0] if len(numbers) == 1 else numbers


def read_names(text: str) -> str:
    """Read names with commas between them, without the spaces around them."""
    if not text.strip():
        raise argparse.ArgumentTypeError("there is no name in an empty text")
    return ",".join(name.strip() for name in text.split(","))


def _add_first(group: argparse._ArgumentGroup) -> None:
    takes_path(group.add_argument("data", metavar="DATA", help="a name that `lila data list` shows, or a path"))
    takes_folder(
        group.add_argument("--out", type=Path, metavar="FOLDER", help="where to write the run [runs/DATA-...]")
    )
    add_settings(group, Recipe, ("size",), CHOICES)
    group.add_argument(
        "--model", help="a name that `lila models` lists, timm:NAME, or package.module:function [by preset]"
    )
    group.add_argument(
        "--augment",
        metavar="NAME[,NAME]",
        type=read_names,
        help="families of transformations that `lila augmentations` lists, applied in this order, or "
        "package.module:Class for a family of your own [affine; series for time series]",
    )
    add_settings(group, Settings, FIRST, CHOICES)


def _add_data(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--subset", type=int, metavar="N", help="learn from N random training images [all]")
    add_settings(group, Recipe, ("transform", "test_share", "scaling"), CHOICES)
    takes_folder(
        group.add_argument("--data-dir", type=Path, metavar="FOLDER", help="data sets known by name [LILA_DATA]")
    )
    group.add_argument("--workers", type=read_count, default=0, metavar="N", help="processes that read images [0]")


def _add_transformations(group: argparse._ArgumentGroup) -> None:
    """Add the options of the augmentation; a family takes those that its class has arguments for."""
    generators = ", ".join(make_augmentation("affine").ranges)
    group.add_argument("--generators", metavar="NAMES", help=f"of affine: {generators} [all]")
    group.add_argument(
        "--padding",
        choices=[p.value for p in Padding],
        help="what lies outside the image [reflection for colour images as they are, else zeros]",
    )
    group.add_argument(
        "--init", type=read_numbers, metavar="X", help="range from which all start, or one for each: 0.1,0.2 [0]"
    )
    offer(
        group.add_argument("--parameterisation", help="how a range is written as eta [identity]"),
        list(PARAMETERISATIONS),
    )
    add_settings(group, Settings, VIEWS, CHOICES)


def _add_comparison(group: argparse._ArgumentGroup) -> None:
    add_settings(group, Settings, COMPARED, CHOICES)
    add_seed_options(group)
    group.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not train the same network without invariance, with which the run is compared",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    offer(
        group.add_argument("--progress", default="auto", help="a live table, a row per epoch, or nothing [auto]"),
        [name.value for name in ProgressName],
    )
    group.add_argument("--json", action="store_true", help="print what was learned as JSON, and nothing else")
    add_posterior_option(group)
