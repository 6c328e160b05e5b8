"""The settings that are chosen by name."""

from enum import StrEnum


class PrecisionSteps(StrEnum):
    """How prior precisions follow the evidence."""

    GRADIENT = "gradient"
    """A gradient step in their logarithm, as in the paper."""
    FIXED_POINT = "fixed-point"
    """A move to the point where the gradient of the evidence in them vanishes, at the present curvature."""


class PassesName(StrEnum):
    """How hyper-steps go over the data; each is cheaper than the one before."""

    EXACT = "exact"
    """A pass for the estimate and one for its gradient, both with all columns of the output Hessian's root."""
    PROBED = "probed"
    """The same two passes with random probes: enough of them in the first, one per example in the second."""
    SAMPLED = "sampled"
    """The same as "probed" on a third of the examples, drawn anew for each hyper-step and scaled up."""
    RUNNING = "running"
    """No passes: hyper-steps on a few examples of a batch, while the weights are trained, with the curvature as a
    running average."""


FULL_PASSES = (PassesName.EXACT, PassesName.PROBED, PassesName.SAMPLED)
"""The passes with which a hyper-step goes over the data after an epoch."""


class ArithmeticName(StrEnum):
    """In which precision the steps of the weights compute."""

    FULL = "full"
    """In that of the weights."""
    MIXED = "mixed"
    """By `torch.autocast`: matrix products and convolutions in bfloat16, all else as it is."""
    AUTO = "auto"
    """Mixed on a device that has instructions for bfloat16, else full. It is settled when a run begins."""


class AveragesName(StrEnum):
    """How averages over the views of an example enter the evidence."""

    PLAIN = "plain"
    """As they are. Few views then make the curvature too large and the log-likelihood too small."""
    UNBIASED = "unbiased"
    """After subtracting what the variance of the averages adds."""


class FinalName(StrEnum):
    """How the evidence of a finished run is computed."""

    ESTIMATE = "estimate"
    """At a small part of the cost of the run: from running averages, or from some of the examples."""
    EXACT = "exact"
    """By a pass over all examples with all columns of the output Hessian's root."""


class OptimiserName(StrEnum):
    """The optimisers of the weights: classes of `torch.optim` that step on the gradient of a batch, in lower case."""

    ADADELTA = "adadelta"
    ADAFACTOR = "adafactor"
    ADAGRAD = "adagrad"
    ADAM = "adam"
    ADAMAX = "adamax"
    ADAMW = "adamw"
    ASGD = "asgd"
    NADAM = "nadam"
    RADAM = "radam"
    RMSPROP = "rmsprop"
    RPROP = "rprop"
    SGD = "sgd"
    OWN = "own"
    """A function of the user's own makes the optimiser; a run in a folder only notes that."""


OPTIMISERS = tuple(name for name in OptimiserName if name is not OptimiserName.OWN)
"""The optimisers that can be chosen by name."""


class ScheduleName(StrEnum):
    """The schedules of the weights' learning rate: lila's own, and classes of `torch.optim.lr_scheduler`."""

    COSINE = "cosine"
    """From `lr` to `lr_end` along half a cosine, over the whole run."""
    CONSTANTLR = "constantlr"
    COSINEANNEALINGLR = "cosineannealinglr"
    COSINEANNEALINGWARMRESTARTS = "cosineannealingwarmrestarts"
    CYCLICLR = "cycliclr"
    EXPONENTIALLR = "exponentiallr"
    LINEARLR = "linearlr"
    MULTISTEPLR = "multisteplr"
    ONECYCLELR = "onecyclelr"
    POLYNOMIALLR = "polynomiallr"
    REDUCELRONPLATEAU = "reducelronplateau"
    STEPLR = "steplr"
    OWN = "own"
    """A function of the user's own makes the schedule; a run in a folder only notes that."""


SCHEDULES = tuple(name for name in ScheduleName if name is not ScheduleName.OWN)
"""The schedules that can be chosen by name."""


class ScheduleEvery(StrEnum):
    """What a step of a schedule follows."""

    BATCH = "batch"
    EPOCH = "epoch"
