"""Learn which transformations of the input leave the output unchanged, and how far, from the training data alone.

An implementation of "Invariance Learning in Deep Neural Networks with Differentiable Laplace Approximations" (NeurIPS
2022).
"""

from lila.augment import Affine2d, Augmentation, Compose, Generator, LieImages, LiePoints, Rotation2d
from lila.curvature import Rule, Sharing, register_rule
from lila.errors import ArgumentError, DataError, LilaError, MemoryBudgetError, ModelError, NumericalError
from lila.evidence import Estimate, Evidence
from lila.invariant import InvariantModel
from lila.likelihood import Bernoulli, Categorical, Gaussian, Likelihood
from lila.noise import Draw
from lila.posterior import Posterior
from lila.prior import GaussianPrior
from lila.training.checkpoint import CheckpointError
from lila.training.fit import fit, resume
from lila.training.run import Run, load
from lila.training.scores import class_scores
from lila.training.settings import Settings
from lila.training.tensorboard import TensorBoard

__version__ = "0.1.0"

__all__ = [
    "Affine2d",
    "ArgumentError",
    "Augmentation",
    "Bernoulli",
    "Categorical",
    "CheckpointError",
    "Compose",
    "DataError",
    "Draw",
    "Estimate",
    "Evidence",
    "Gaussian",
    "GaussianPrior",
    "Generator",
    "InvariantModel",
    "LieImages",
    "LiePoints",
    "Likelihood",
    "LilaError",
    "MemoryBudgetError",
    "ModelError",
    "NumericalError",
    "Posterior",
    "Rotation2d",
    "Rule",
    "Run",
    "Settings",
    "Sharing",
    "TensorBoard",
    "class_scores",
    "fit",
    "load",
    "register_rule",
    "resume",
]
