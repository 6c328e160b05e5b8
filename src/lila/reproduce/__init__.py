"""Experiments that put claims to the test: an engine that runs them, and the experiments of the paper.

`engine/` defines what an experiment is, runs its jobs and writes its page. `paper/` defines the paper's tables and
figures with it. Experiments of other projects import the names below and register themselves in the same way;
`docs/extending.md` has a complete example.
"""

from lila.reproduce.engine.experiment import Cell, Experiment, Scale, Summary, Verdict, group_seeds
from lila.reproduce.engine.jobs import Job, Result, Surroundings
from lila.reproduce.engine.registry import register_experiment, register_work

__all__ = [
    "Cell",
    "Experiment",
    "Job",
    "Result",
    "Scale",
    "Summary",
    "Surroundings",
    "Verdict",
    "group_seeds",
    "register_experiment",
    "register_work",
]
