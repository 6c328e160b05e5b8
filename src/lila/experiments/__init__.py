"""Every table and figure of the paper, one file each: its claim, its settings as data, and what counts as reproduced.

An experiment is cut into jobs (`jobs`), whose results are stored under a hash of what they depend on (`store`), so that
nothing is done twice, not even by two experiments. `runner` does them; `output` writes what came out.
"""

from lila.experiments.accuracy import Accuracy
from lila.experiments.approximations import Approximations
from lila.experiments.augerino_parameterisation import AugerinoParameterisation
from lila.experiments.augerino_strength import AugerinoStrength
from lila.experiments.barplots import Barplots
from lila.experiments.data_efficiency import DataEfficiency
from lila.experiments.experiment import Experiment
from lila.experiments.maximum_likelihood import MaximumLikelihood
from lila.experiments.timing import Timing
from lila.experiments.toy import Toy
from lila.experiments.trajectories import Trajectories
from lila.experiments.wide_resnet import WideResNet

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
