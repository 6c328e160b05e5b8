"""The public names, and where they are; `__init__.py` imports each when it is first asked for."""

from ._util.denormals import flush_denormals
from ._util.ranks import RankError, Ranks
from .augment import (
    Affine2d,
    Augmentation,
    Colour,
    Compose,
    Coupling,
    DiscreteFamily,
    FullTurn,
    Generator,
    HorizontalFlip,
    InputFormat,
    LieImages,
    LiePoints,
    Parameterisation,
    PointCloud,
    QuarterTurns,
    Range,
    RangeFamily,
    Rotation2d,
    TimeSeries,
    VerticalFlip,
    augmentation_names,
    make_augmentation,
    register_augmentation,
    register_parameterisation,
)
from .augment.noise import Draw
from .augment.pipelines import LearnedTransform
from .curvature import Rule, Sharing, Speedups, Structure, register_rule, register_structure
from .curvature.audit import freeze_unknown
from .data.fields import Fields
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
from .model.statistics import convert_batch_norm, freeze_statistics
from .networks import make_model
from .results.network_file import export_network
from .training.fit import fit, resume
from .training.history import EpochRecord, scalars
from .training.hyper import HyperOptimiser
from .training.loading import load
from .training.loop import STOP
from .training.run import Run
from .training.settings import Settings

__version__: str

__all__ = [
    "STOP",
    "Affine2d",
    "ArgumentError",
    "Augmentation",
    "Bernoulli",
    "Categorical",
    "CheckpointError",
    "Colour",
    "Compose",
    "Coupling",
    "DataError",
    "DiscreteFamily",
    "Draw",
    "EpochRecord",
    "Estimate",
    "Evidence",
    "Fields",
    "Format",
    "FullTurn",
    "Gaussian",
    "GaussianPrior",
    "Generator",
    "HorizontalFlip",
    "HyperOptimiser",
    "ImageData",
    "ImageSet",
    "InputFormat",
    "InvariantModel",
    "Kornia",
    "KorniaRange",
    "LearnedTransform",
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
    "QuarterTurns",
    "Range",
    "RangeFamily",
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
    "VerticalFlip",
    "augmentation_names",
    "class_scores",
    "convert_batch_norm",
    "export_network",
    "fit",
    "flush_denormals",
    "freeze_statistics",
    "freeze_unknown",
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
