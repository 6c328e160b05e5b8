"""Every table and figure of the paper, one file each: its claim, its settings as data, and what counts as reproduced.

An experiment is cut into jobs (`jobs`), whose results are stored under a hash of what they depend on (`store`), so that
nothing is done twice, not even by two experiments. `runner` does them; `output` writes what came out.
"""

from lila.reproduce.engine.experiment import Experiment
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

EXPERIMENTS: dict[str, Experiment] = {
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
"""The experiments by name, in the paper's order."""

__all__ = ["EXPERIMENTS", "Experiment"]
