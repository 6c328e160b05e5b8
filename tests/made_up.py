"""Results of jobs that nobody ran, in which what lila should learn is learned, to see what experiments make of them."""

import base64
from dataclasses import asdict
from math import pi
from typing import Any

from lila.data.transformed import true_ranges
from lila.reproduce.engine.jobs import Job, Result
from lila.training.settings import Settings

METHODS = {"lila": 0.9, "augerino": 0.8, "maximum-likelihood": 0.7, "non-invariant": 0.6, "fixed-loss": 0.5}
"""How good a method is made out to be, from 0 to 1."""


def made_up(job: Job, good: dict[str, float] = METHODS) -> Result:
    """The result of a job; methods are as good as they are said to be."""
    return _toy(job.arguments, good) if job.work == "toy" else _images(job.arguments, good)


def _images(arguments: Any, good: dict[str, float]) -> Result:
    recipe, settings = arguments["recipe"], asdict(Settings.from_dict(dict(arguments["settings"])))
    shape = [3, 32, 32] if recipe["source"] == "cifar10" else [1, 28, 28]
    method = settings["method"]
    value = good[method]
    value -= 0.1 * (settings["structure"] == "diag") + 0.01 * (settings["curvature"] == "ef")
    ranges: dict[str, float] = {}
    if method != "non-invariant":
        truth = true_ranges(recipe["transform"], tuple(shape))
        share = 1.0 if method == "lila" and settings["structure"] == "kron" else 0.0
        share += settings["eta_reward"] / 2 * (method == "augerino")
        ranges = {name: share * truth[name] for name in truth}
    pixels = bytes(4 * shape[0] * shape[1] * shape[2])
    return _history(ranges, value, settings["epochs"] or 6) | {
        "shape": shape,
        "examples": [1000, 10_000],
        "classes": [str(i) for i in range(10)],
        "scaling": {"mean": [0.0] * shape[0], "std": [1.0] * shape[0]},
        "pictures": base64.b64encode(pixels).decode(),
    }


def _toy(arguments: Any, good: dict[str, float]) -> Result:
    value = good[arguments["method"]] + 0.29 * bool(arguments.get("polar"))
    ranges = {"rotation": pi / 3} if arguments["method"] != "non-invariant" else {}
    return _history(ranges, value, 3) | {
        "shape": [2],
        "full evidence": 100 * value - 100,
        "predictive": [0.5] * 100,
        "seed": arguments["settings"]["seed"],
    }


def _history(ranges: dict[str, float], value: float, epochs: int) -> Result:
    terms = {"value": 1000 * value - 1000, "log_likelihood": -400.0, "weight_penalty": -300.0, "occam_factor": -300.0}
    count = min(epochs, 6)
    return {
        "ranges": ranges,
        "readable_ranges": {name: f"±{size:.2f}" for name, size in ranges.items()},
        "evidence": terms,
        "test": {"accuracy": value, "log_likelihood": -1.0, "calibration_error": 0.1, "brier": 0.2},
        "peak_bytes": 10**9,
        "history": {
            "epoch": list(range(1, count + 1)),
            "loss": [1.0] * count,
            "ranges": {name: [size * i / count for i in range(1, count + 1)] for name, size in ranges.items()},
            "evidence": {name: [None] + [term] * (count - 1) for name, term in terms.items()},
            "seconds": {"weights": [1.0] * count, "hyper": [4.0 - 10 * (1 - value) ** 2] * count},
        },
    }
