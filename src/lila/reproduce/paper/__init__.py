"""The tables and figures of the paper, one file each: the claim, the settings, and what counts as reproduced.

Importing this package registers them, in the paper's order. `plans` has the settings that they share, `comparison` a
base class of several, and `published` the paper's own numbers.
"""

from lila.reproduce.engine.registry import register_experiment
from lila.reproduce.paper.accuracy import Accuracy
from lila.reproduce.paper.approximations import Approximations
from lila.reproduce.paper.augerino_parameterisation import AugerinoParameterisation
from lila.reproduce.paper.augerino_strength import AugerinoStrength
from lila.reproduce.paper.barplots import Barplots
from lila.reproduce.paper.data_efficiency import DataEfficiency
from lila.reproduce.paper.maximum_likelihood import MaximumLikelihood
from lila.reproduce.paper.timing import Timing
from lila.reproduce.paper.toy import Toy
from lila.reproduce.paper.trajectories import Trajectories
from lila.reproduce.paper.wide_resnet import WideResNet

PAPER_EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Toy(),
        Trajectories(),
        Accuracy(),
        WideResNet(),
        DataEfficiency(),
        Approximations(),
        AugerinoStrength(),
        AugerinoParameterisation(),
        MaximumLikelihood(),
        Timing(),
        Barplots(),
    )
}
"""The experiments of the paper by name, in its order."""

for _experiment in PAPER_EXPERIMENTS.values():
    register_experiment(_experiment)

__all__ = ["PAPER_EXPERIMENTS"]
