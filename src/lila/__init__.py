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
from lila.prior import GaussianPrior

__version__ = "0.1.0"

__all__ = [
    "Affine2d",
    "ArgumentError",
    "Augmentation",
    "Bernoulli",
    "Categorical",
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
    "Rotation2d",
    "Rule",
    "Sharing",
    "register_rule",
]
