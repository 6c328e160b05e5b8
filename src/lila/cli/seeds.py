"""The same training with several seeds: ranges with their mean and their spread over the seeds."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from lila.errors import LilaError

if TYPE_CHECKING:
    from lila.augment import Augmentation

Record = dict[str, Any]
"""What a run learned, as `lila show --json` prints it."""


class SeedError(LilaError):
    """The trainings of some seeds failed; the others are done."""


def add_seed_options(parser: argparse._ActionsContainer) -> None:
    """Add the options for several seeds."""
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="train with N seeds, from --seed on, each in a folder of its own in --out; print means and spreads",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="K", help="with --seeds: trainings side by side [1]")


def train_seeds(works: Mapping[int, Callable[[], Record]], jobs: int, *, silent: bool) -> dict[int, Record]:
    """Train with all seeds; return what each learned, by seed.

    Args:
        works: the training of each seed, as a function that another process can get.
        jobs: the number of trainings to do side by side.
        silent: whether to say nothing when a seed is done.
    """
    from lila.training.side_by_side import Failure, do_all

    seeds, records, failures = list(works), dict[int, Record](), list[str]()
    for done, (number, ending) in enumerate(do_all(list(works.values()), jobs), start=1):
        seed = seeds[number]
        if isinstance(ending, Failure):
            failures.append(f"seed {seed}: {ending.reason}")
        else:
            records[seed] = ending
        if not silent:
            print(
                f"seed {seed}: {'failed' if seed not in records else 'done'} ({done} of {len(seeds)})", file=sys.stderr
            )
    if failures:
        raise SeedError(
            f"{len(failures)} of {len(seeds)} trainings failed. {'; '.join(failures)} The same command goes on with "
            "those that are not finished."
        )
    return {seed: records[seed] for seed in seeds}


def over_seeds(records: Mapping[int, Record]) -> dict[str, Any]:
    """Return means and standard deviations over the seeds, and what each seed learned, as JSON."""
    made = list(records.values())
    return {
        "seeds": list(records),
        "ranges": {name: _moments([r["ranges"][name] for r in made]) for name in made[0]["ranges"]},
        "evidence": _moments([r["evidence"]["value"] for r in made]),
        "test": {name: _moments([r["test"][name] for r in made]) for name in made[0]["test"] or {}},
        "doubtful": [seed for seed, r in records.items() if r["verdict"]["text"]],
        "runs": made,
    }


def seeds_text(summary: Mapping[str, Any], augmentation: "Augmentation", shape: Sequence[int]) -> str:
    """Return the same for people to read.

    Args:
        summary: what `over_seeds` returns.
        augmentation: writes ranges.
        shape: of an image.
    """
    from lila.results.tables import Table

    rows = []
    for name, moments in summary["ranges"].items():
        each = [r["ranges"][name] for r in summary["runs"]]
        values = (moments["mean"], moments["standard_deviation"], min(each), max(each))
        texts = [augmentation.readable(name, value, tuple(shape)) for value in values]
        errors = [error for r in summary["runs"] if (error := (r["range_errors"] or {}).get(name)) is not None]
        rows.append([name, *texts, augmentation.readable(name, mean(errors), tuple(shape)) if errors else "-"])
    for name, moments in {"evidence, nats": summary["evidence"], **summary["test"]}.items():
        scores = [r["evidence"]["value"] if "nats" in name else r["test"][name] for r in summary["runs"]]
        values = (moments["mean"], moments["standard_deviation"], min(scores), max(scores))
        title = name if "nats" in name else f"test {name.replace('_', ' ')}"
        rows.append([title, *(f"{value:.4g}" if "test" in title else f"{value:.1f}" for value in values), ""])
    title = f"{summary['runs'][0]['method']}, {len(summary['seeds'])} seeds"
    columns = ["", "mean", "standard deviation", "smallest", "largest", "error of a run"]
    lines = [Table(title, columns, rows).text()]
    for seed, made in zip(summary["seeds"], summary["runs"], strict=True):
        if made["verdict"]["text"]:
            lines.append(f"seed {seed}: {made['verdict']['text']}")
    return "\n".join(lines)


def show_seeds(
    records: Mapping[int, Record], augmentation: "Augmentation", shape: Sequence[int], as_json: bool
) -> None:
    """Print what the seeds learned."""
    summary = over_seeds(records)
    print(json.dumps(summary, indent=2) if as_json else f"\n{seeds_text(summary, augmentation, shape)}")


def seed_folder(folder: Path, seed: int) -> Path:
    """Return the folder of one seed in the folder of all."""
    return folder / f"seed{seed}"


def _moments(values: Sequence[float]) -> dict[str, float]:
    return {"mean": mean(values), "standard_deviation": stdev(values) if len(values) > 1 else 0.0}
