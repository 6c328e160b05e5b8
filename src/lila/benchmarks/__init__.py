"""What training costs, as ratios measured in one run; `lila bench` is its command."""

from lila.benchmarks.networks import JOBS, Job, hyper_steps, measure
from lila.benchmarks.runs import RUNS, whole_run
from lila.benchmarks.scaling import memory, scaling, width
from lila.benchmarks.tools import machine, peak, ratios, seconds

__all__ = [
    "JOBS",
    "RUNS",
    "Job",
    "hyper_steps",
    "machine",
    "measure",
    "memory",
    "peak",
    "ratios",
    "scaling",
    "seconds",
    "whole_run",
    "width",
]
