"""Go on with a run that was interrupted, from its last checkpoint, as if it had not been."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from lila._util.memory import keep_heap
from lila.cli.interruption import resumable
from lila.cli.options import add_own_code_options, own_code, read_count, takes_folder, takes_path
from lila.cli.processes import add_device_options, processes
from lila.cli.show import record
from lila.cli.train import keep_posterior, source
from lila.cli.train_options import add_posterior_option
from lila.data.task import load_data
from lila.training.description import read_description, read_task
from lila.training.progress import ProgressName
from lila.training.tasks import train_task

EXAMPLES = """example:
  lila resume runs/digits"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lila resume`."""
    takes_folder(parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run"))
    takes_path(parser.add_argument("--data", metavar="DATA", help="where the data is now, if it was moved"))
    add_own_code_options(parser)
    add_device_options(parser)
    parser.add_argument("--workers", type=read_count, default=0, metavar="N", help="processes that read images [0]")
    parser.add_argument("--progress", choices=[name.value for name in ProgressName], default="auto", help="[auto]")
    add_posterior_option(parser)
    parser.add_argument("--json", action="store_true", help="print what was learned as JSON, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Run `lila resume`."""
    keep_heap()
    with processes(arguments) as (ranks, where):
        description = read_description(arguments.run)
        task = read_task(arguments.run, description)
        if arguments.data is not None:
            task = replace(task, recipe=replace(task.recipe, source=source(arguments.data)))
        data = load_data(task.recipe, task.data_folder, workers=arguments.workers)
        task.check(data)
        own = own_code(arguments)
        with resumable(arguments.run, own, first=ranks.first):
            made = train_task(
                task,
                data,
                description.settings,
                arguments.run,
                own=own,
                progress="silent" if arguments.json else arguments.progress,
                device=where,
            )
    if ranks.first:
        print(json.dumps(record(made), indent=2) if arguments.json else f"\n{made.summary()}")
        keep_posterior(arguments, made, arguments.run)
    return 0
