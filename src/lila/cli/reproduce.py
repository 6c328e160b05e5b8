"""Repeat the tables and figures of the paper, each by one command, and say whether its claims held.

NAME is an experiment, several of them, or `all`; without one they are listed. An experiment is cut
into jobs whose results are kept: starting it again repeats nothing that is finished, and experiments
share what they have in common.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lila.cli.options import takes_folder
from lila.errors import ArgumentError

if TYPE_CHECKING:
    from lila.reproduce.engine.jobs import Job, Shard
    from lila.reproduce.paper import Experiment

EXAMPLES = """examples:
  lila reproduce                                    # what there is
  lila reproduce toy
  lila reproduce accuracy --seeds 3 --jobs 2
  lila reproduce accuracy --scale paper --shard 1/8 --out /shared/results"""

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila reproduce`."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="experiments, or all")
    parser.add_argument(
        "--scale", choices=["small", "paper"], default="small", help="[small: at most 40 minutes with --jobs 2]"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds 0 to N - 1, for means and standard errors")
    parser.add_argument("--jobs", type=int, default=1, metavar="K", help="jobs side by side [1]")
    parser.add_argument("--shard", type=read_shard, metavar="I/N", help="do part I of N, to share work among machines")
    takes_folder(
        parser.add_argument("--out", type=Path, metavar="FOLDER", help="of results [results/SCALE]"),
        parser.add_argument("--data-dir", type=Path, metavar="FOLDER", help="data sets known by name [LILA_DATA]"),
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... [cuda if there is one]")
    parser.add_argument("--report", action="store_true", help="also write report.html, with its runs side by side")
    parser.add_argument("--json", action="store_true", help="print what came out as JSON, and nothing else")


def read_shard(text: str) -> "Shard":
    """A shard from "2/8"."""
    from lila.reproduce.engine.jobs import Shard

    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part of the work; write 2/8 for the second of eight")
    return Shard(int(number), int(count))


def run(arguments: argparse.Namespace) -> int:
    """Run `lila reproduce`."""
    from lila.reproduce.paper import EXPERIMENTS

    if not arguments.names:
        titles = {name: experiment.title for name, experiment in EXPERIMENTS.items()}
        told = (f"{name:<26} {title}" for name, title in titles.items())
        print(json.dumps(titles, indent=2) if arguments.json else "\n".join(told))
        return 0
    from lila._util.choices import check_count
    from lila.reproduce.engine.runner import JobError
    from lila.results.plots.style import new_figure

    check_count("seeds", arguments.seeds, optional=True)
    check_count("jobs", arguments.jobs)
    new_figure(1, 1)  # says at once if pictures cannot be drawn
    records, errors = [], []
    for experiment in parted(chosen(arguments.names, EXPERIMENTS), arguments):
        try:
            records.append(one(experiment, arguments))
        except JobError as error:  # the others can still be done
            errors.append(f"{experiment.name}: {error}")
    if arguments.json:
        print(json.dumps([record for record in records if record is not None], indent=2))
    if errors:
        raise JobError("\n".join(errors))
    return 0


def chosen(names: list[str], known: "dict[str, Experiment]") -> "list[Experiment]":
    """The experiments of these names."""
    for name in names:
        if name not in known and name != _ALL:
            raise ArgumentError(f"There is no experiment named {name!r}; choose from {', '.join(known)}, or {_ALL}.")
    return list(known.values()) if _ALL in names else [known[name] for name in dict.fromkeys(names)]


def parted(experiments: "list[Experiment]", arguments: argparse.Namespace) -> "list[Experiment]":
    """Those of which a part can be done, if only a part is asked for: times have to be of one machine."""
    if arguments.shard is None or arguments.shard.count == 1:
        return experiments
    alone = [experiment.name for experiment in experiments if experiment.alone]
    if set(alone) & set(arguments.names):
        raise ArgumentError(f"{alone[0]} compares times, so one machine has to do all of it: leave --shard out.")
    for name in alone:
        note(arguments, f"{name} is left out: it compares times, so one machine has to do all of it, without --shard.")
    return [experiment for experiment in experiments if not experiment.alone]


def one(experiment: "Experiment", arguments: argparse.Namespace) -> dict[str, object] | None:
    """Do one experiment; None if others have jobs left to do."""
    from lila._util.versions import versions
    from lila.cli.together import device
    from lila.reproduce.engine.experiment import Scale
    from lila.reproduce.engine.jobs import Shard
    from lila.reproduce.engine.output import conclude, record, text, write, write_index
    from lila.reproduce.engine.runner import run_jobs
    from lila.reproduce.engine.store import Store, rounded
    from lila.reproduce.paper import EXPERIMENTS

    scale = Scale(arguments.scale)
    seeds = arguments.seeds or (experiment.small_seeds if scale is Scale.SMALL else experiment.paper_seeds)
    folder = arguments.out or Path("results") / scale.value
    where = device(arguments.device)
    jobs_folder = folder / "jobs"
    if experiment.alone:  # results that another device or version would not give
        jobs_folder /= f"timed-on-{where.replace(':', '-')}-by-{versions()['lila']}"
    store, shard = Store(jobs_folder), arguments.shard or Shard()
    jobs = experiment.jobs(scale, seeds)
    labels = {job: ", ".join(map(str, cell)) for cell, job in jobs.items()}

    def tell(job: "Job", done: int, of: int, seconds: float) -> None:
        note(arguments, f"{experiment.name}: {done} of {of} in {seconds:.0f} s: {labels[job]}")

    mine = [job for job in jobs.values() if job in shard]
    at_once = 1 if experiment.alone else arguments.jobs
    run_jobs(mine, store, at_once, arguments.data_dir, where, tell)
    left = store.missing(jobs.values())
    if left:
        note(arguments, f"{experiment.name}: this part is done; {len(left)} jobs of others are not there yet.")
        return None
    outcome = conclude(experiment, scale, seeds, jobs, store)
    write(outcome, folder / experiment.name)
    write_index(folder, list(EXPERIMENTS))
    if arguments.report:
        from lila.reproduce.engine.sheets import experiment_part, sheets
        from lila.results.report import write_report

        write_report(
            sheets(outcome), folder / experiment.name / "report.html", experiment.name, experiment_part(outcome)
        )
    if not arguments.json:
        print(f"\n{text(outcome)}\n\nWritten to {folder / experiment.name}.")
    return rounded(record(outcome))


def note(arguments: argparse.Namespace, text: str) -> None:
    """Tell a person something, on standard error so that it is never part of a result."""
    if not arguments.json:
        print(text, file=sys.stderr, flush=True)
