"""`python -m small_lila` is `python -m lila`, but its MLP has 20 units instead of 1000.

The decompositions of 1000 units take most of a short training, and no test of a command is about the size of a network.
"""

import os
import runpy
from pathlib import Path

from torch import nn

from lila.networks.plain import Shape, mlp
from lila.networks.registry import MODELS, Maker, ModelName


def small_mlp(shape: Shape, outputs: int) -> nn.Module:
    """Make the MLP with 20 units."""
    return mlp(shape, outputs, width=20)


SMALL: dict[ModelName, tuple[str, Maker]] = {ModelName.MLP: ("one hidden layer of 20 tanh units", small_mlp)}
"""The networks that take the place of those of the same name."""
COMMAND = ("-m", "small_lila")
"""What Python is started with, in the environment `environment()`."""


def environment(**changes: str) -> dict[str, str]:
    """The environment of a process in which Python finds this module."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)} | changes


if __name__ == "__main__":
    MODELS.update(SMALL)
    runpy.run_module("lila", run_name="__main__", alter_sys=True)
