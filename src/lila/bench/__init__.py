"""What training costs, as ratios measured in one run; `lila bench` is its command."""

from lila.bench.networks import JOBS, Job, hyper_steps, measure
from lila.bench.runs import RUNS, whole_run
from lila.bench.scaling import memory, scaling, width
from lila.bench.tools import machine, peak, ratios, seconds

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
