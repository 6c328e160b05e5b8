"""Run experiments, such as those behind the paper's tables and figures, and say whether their claims held.

NAME is an experiment, several of them, or `all`; without a name they are listed. An experiment is cut
into jobs whose results are kept: starting it again repeats nothing that is finished, and experiments
share the jobs that they have in common.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lila._util.suggestions import did_you_mean
from lila.cli.options import takes_folder
from lila.errors import ArgumentError

if TYPE_CHECKING:
    from lila.reproduce.engine.experiment import Experiment
    from lila.reproduce.engine.jobs import Job, Shard
    from lila.reproduce.engine.output import Outcome

EXAMPLES = """examples:
  lila reproduce                                    # list the experiments
  lila reproduce toy
  lila reproduce accuracy --seeds 3 --jobs 2
  lila reproduce accuracy --scale full --network mnist:mlp --out results/mnist-mlp
  lila reproduce accuracy --scale paper --shard 1/8 --out /shared/results"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila reproduce`."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="names of experiments, or all")
    parser.add_argument(
        "--scale",
        choices=["small", "full", "paper"],
        default="small",
        help="small (at most 40 minutes with --jobs 2), full (all images; a night), or paper (for a GPU) [small]",
    )
    parser.add_argument(
        "--network",
        type=read_network,
        action="append",
        default=[],
        metavar="DATA:MODEL",
        help="only this data set and network, as mnist:mlp; may be given several times",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds 0 to N - 1, for means and standard errors")
    parser.add_argument("--jobs", type=int, default=1, metavar="K", help="jobs to do side by side [1]")
    parser.add_argument("--shard", type=read_shard, metavar="I/N", help="do shard I of N, to share work among machines")
    takes_folder(
        parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the results [results/SCALE]"),
        parser.add_argument(
            "--data-dir", type=Path, metavar="FOLDER", help="folder of the data sets known by name [LILA_DATA]"
        ),
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... [cuda if there is one]")
    parser.add_argument("--report", action="store_true", help="also write report.html, with the runs side by side")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON, and nothing else")


def read_shard(text: str) -> "Shard":
    """Return the shard that a text such as "2/8" describes."""
    from lila.reproduce.engine.jobs import Shard

    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write 2/8 for the second of eight")
    return Shard(int(number), int(count))


def read_network(text: str) -> tuple[str, str]:
    """Return the names of the data set and the network in a text such as "mnist:mlp"."""
    data, colon, model = text.partition(":")
    if not (data and colon and model):
        raise argparse.ArgumentTypeError(f"{text!r} is not a data set and a network; write mnist:mlp")
    return data, model


def run(arguments: argparse.Namespace) -> int:
    """Run `lila reproduce`."""
    experiments = known_experiments()
    if not arguments.names:
        if arguments.network:
            raise ArgumentError("--network restricts an experiment, so name one: lila reproduce accuracy --network ...")
        titles = {name: experiment.title for name, experiment in experiments.items()}
        lines = (f"{name:<26} {title}" for name, title in titles.items())
        print(json.dumps(titles, indent=2) if arguments.json else "\n".join(lines))
        return 0
    from lila._util.choices import check_count
    from lila.reproduce.engine.output import outcome_data
    from lila.reproduce.engine.runner import JobError
    from lila.reproduce.engine.store import rounded
    from lila.results.plots.style import new_figure

    check_count("seeds", arguments.seeds, optional=True)
    check_count("jobs", arguments.jobs)
    new_figure(1, 1)  # fails at once if the extra for figures is missing
    chosen = without_timed(choose_experiments(arguments.names, experiments), arguments)
    chosen = check_jobs(chosen, arguments)
    outcomes, errors = [], []
    for experiment in chosen:
        try:
            outcomes.append(run_experiment(experiment, arguments))
        except JobError as error:  # the other experiments can still be done
            errors.append(f"{experiment.name}: {error}")
    if arguments.json:
        complete = [outcome for outcome in outcomes if outcome is not None]
        print(json.dumps([rounded(outcome_data(outcome)) for outcome in complete], indent=2))
    if errors:
        raise JobError("\n".join(errors))
    return 0


def known_experiments() -> "dict[str, Experiment]":
    """Return all experiments that are registered, by the paper's modules or by others, by name."""
    import lila.reproduce.paper  # noqa: F401  (registers its experiments)
    from lila.reproduce.engine import registry

    return registry.EXPERIMENTS


def choose_experiments(names: list[str], known: "dict[str, Experiment]") -> "list[Experiment]":
    """Return the experiments of these names, each once."""
    from lila.reproduce.engine.registry import ALL

    for name in names:
        if name not in known and name != ALL:
            meant = did_you_mean(name, known)
            raise ArgumentError(
                f"There is no experiment named {name!r}; choose from {', '.join(known)}, or {ALL}.{meant}"
            )
    return list(known.values()) if ALL in names else [known[name] for name in dict.fromkeys(names)]


def without_timed(experiments: "list[Experiment]", arguments: argparse.Namespace) -> "list[Experiment]":
    """Leave out experiments that measure time if the work is shared: times have to come from one machine."""
    if arguments.shard is None or arguments.shard.count == 1:
        return experiments
    timed = [experiment.name for experiment in experiments if experiment.alone]
    if set(timed) & set(arguments.names):
        raise ArgumentError(f"{timed[0]} compares times, so one machine has to do all of it: leave --shard out.")
    for name in timed:
        note(arguments, f"{name} is left out: it compares times, so one machine has to do all of it, without --shard.")
    return [experiment for experiment in experiments if not experiment.alone]


def check_jobs(experiments: "list[Experiment]", arguments: argparse.Namespace) -> "list[Experiment]":
    """Return the experiments, after it was checked, before any is begun, that each has jobs of what was asked for.

    With `all`, those that have no such jobs are left out.
    """
    from lila.reproduce.engine.experiment import Scale, chosen_jobs
    from lila.reproduce.engine.registry import ALL

    fitting = []
    for experiment in experiments:
        try:
            chosen_jobs(experiment, Scale(arguments.scale), 1, arguments.network)
        except ArgumentError as error:
            if ALL not in arguments.names:
                raise
            note(arguments, f"{experiment.name} is left out: {error}")
        else:
            fitting.append(experiment)
    return fitting


def run_experiment(experiment: "Experiment", arguments: argparse.Namespace) -> "Outcome | None":
    """Do the jobs of one experiment and write its files; None if jobs of other shards are still missing."""
    from lila._util.versions import versions
    from lila.cli.processes import device
    from lila.reproduce.engine.experiment import Scale, chosen_jobs
    from lila.reproduce.engine.jobs import Shard
    from lila.reproduce.engine.output import conclude
    from lila.reproduce.engine.runner import run_jobs
    from lila.reproduce.engine.store import Store

    scale = Scale(arguments.scale)
    seeds = arguments.seeds or (experiment.small_seeds if scale is Scale.SMALL else experiment.paper_seeds)
    folder = arguments.out or Path("results") / scale.value
    chosen_device = device(arguments.device)
    jobs_folder = folder / "jobs"
    if experiment.alone:  # another device or version would give other results
        jobs_folder /= f"timed-on-{chosen_device.replace(':', '-')}-by-{versions()['lila']}"
    store, shard = Store(jobs_folder), arguments.shard or Shard()
    jobs = chosen_jobs(experiment, scale, seeds, arguments.network)
    labels = {job: ", ".join(map(str, cell)) for cell, job in jobs.items()}

    def on_job_done(job: "Job", done: int, count: int, seconds: float) -> None:
        note(arguments, f"{experiment.name}: {done} of {count} in {seconds:.0f} s: {labels[job]}")

    run_jobs(
        [job for job in jobs.values() if job in shard],
        store,
        at_once=1 if experiment.alone else arguments.jobs,
        data_dir=arguments.data_dir,
        device=chosen_device,
        on_job_done=on_job_done,
    )
    left = store.missing(jobs.values())
    if left:
        note(arguments, f"{experiment.name}: this part is done; {len(left)} jobs of others are not there yet.")
        return None
    outcome = conclude(experiment, scale, seeds, store, networks=arguments.network)
    write_files(outcome, folder, arguments)
    return outcome


def write_files(outcome: "Outcome", folder: Path, arguments: argparse.Namespace) -> None:
    """Write the files of an experiment and the page that lists all experiments, and print the outcome."""
    from lila.reproduce.engine.output import text, write, write_index

    own_folder = folder / outcome.experiment.name
    write(outcome, own_folder)
    write_index(folder, list(known_experiments()))
    if arguments.report:
        from lila.reproduce.engine.sheets import experiment_section, sheets
        from lila.results.report import write_report

        section = experiment_section(outcome)
        write_report(sheets(outcome), own_folder / "report.html", outcome.experiment.name, section)
    if not arguments.json:
        print(f"\n{text(outcome)}\n\nWritten to {own_folder}.")


def note(arguments: argparse.Namespace, text: str) -> None:
    """Print a remark on standard error, so that it is never part of a result; with --json print nothing."""
    if not arguments.json:
        print(text, file=sys.stderr, flush=True)
