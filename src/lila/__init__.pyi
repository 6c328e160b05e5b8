"""The public names, and where they are; `__init__.py` imports each when it is first asked for."""

from ._util.ranks import RankError, Ranks
from .augment import (
    Affine2d,
    Augmentation,
    Colour,
    Compose,
    Generator,
    InputFormat,
    LieImages,
    LiePoints,
    Parameterisation,
    PointCloud,
    Rotation2d,
    TimeSeries,
    augmentation_names,
    make_augmentation,
    register_augmentation,
    register_parameterisation,
)
from .augment.noise import Draw
from .curvature import Rule, Sharing, Speedups, Structure, register_rule, register_structure
from .data.formats.format import Format, Reading, register_format
from .data.images import ImageData, ImageSet
from .data.task import Recipe, Task, load_data
from .errors import ArgumentError, CheckpointError, DataError, LilaError, MemoryBudgetError, ModelError, NumericalError
from .integrations.kornia import Kornia, KorniaRange
from .integrations.tensorboard import TensorBoard
from .laplace.evidence import Evidence
from .laplace.posterior import Posterior
from .laplace.running import RunningEvidence
from .laplace.terms import Estimate
from .model.invariant import InvariantModel
from .model.likelihood import Bernoulli, Categorical, Gaussian, Likelihood
from .model.metrics import class_scores
from .model.prior import GaussianPrior
from .networks import make_model
from .training.fit import fit, resume
from .training.history import EpochRecord, scalars
from .training.hyper import HyperOptimiser
from .training.run import Run, load
from .training.settings import Settings

__version__: str

__all__ = [
    "Affine2d",
    "ArgumentError",
    "Augmentation",
    "Bernoulli",
    "Categorical",
    "CheckpointError",
    "Colour",
    "Compose",
    "DataError",
    "Draw",
    "EpochRecord",
    "Estimate",
    "Evidence",
    "Format",
    "Gaussian",
    "GaussianPrior",
    "Generator",
    "HyperOptimiser",
    "ImageData",
    "ImageSet",
    "InputFormat",
    "InvariantModel",
    "Kornia",
    "KorniaRange",
    "LieImages",
    "LiePoints",
    "Likelihood",
    "LilaError",
    "MemoryBudgetError",
    "ModelError",
    "NumericalError",
    "Parameterisation",
    "PointCloud",
    "Posterior",
    "RankError",
    "Ranks",
    "Reading",
    "Recipe",
    "Rotation2d",
    "Rule",
    "Run",
    "RunningEvidence",
    "Settings",
    "Sharing",
    "Speedups",
    "Structure",
    "Task",
    "TensorBoard",
    "TimeSeries",
    "augmentation_names",
    "class_scores",
    "fit",
    "load",
    "load_data",
    "make_augmentation",
    "make_model",
    "register_augmentation",
    "register_format",
    "register_parameterisation",
    "register_rule",
    "register_structure",
    "resume",
    "scalars",
]
