"""All settings of a run in one frozen object, checked when it is made, written into the run and read back from it."""

from dataclasses import dataclass, fields
from enum import StrEnum
from math import ceil
from typing import Any, Self

from lila._util.choices import check_count, choose
from lila._util.memory import parse_bytes
from lila.augment.noise import NoiseName
from lila.curvature import CurvatureKind, find_structure
from lila.errors import ArgumentError
from lila.model.prior import PriorStructure
from lila.training.methods import METHODS, By, Method, MethodName

_ENOUGH_PROBES = 1_000  # over all examples: see docs/speed.md
_SAMPLED = 3  # one of so many examples
_BATCHES, _LEAST_BATCH, _MOST_BATCH = 20, 25, 250  # of an epoch; examples of a batch, if the user does not say
_STEPS, _LEAST_EPOCHS, _MOST_EPOCHS = 3_000, 10, 100  # of a run, if the user does not say


class PrecisionSteps(StrEnum):
    """How prior precisions follow the evidence."""

    GRADIENT = "gradient"
    """By a gradient step in their logarithm, as in the paper."""
    FIXED_POINT = "fixed-point"
    """By a move to where the gradient of the evidence in them vanishes, at the present curvature."""


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
"""Those by which a hyper-step goes over the data after an epoch."""

_STEP_TO_PASS = {PassesName.EXACT: 4.0, PassesName.PROBED: 1.5, PassesName.SAMPLED: 1.5, PassesName.RUNNING: 1.5}

_AFTER_EPOCHS: dict[str, Any] = {
    "epochs": 100,
    "batch_size": 1000,
    "burn_in": 10,
    "hyper_every": 1,
    "hyper_lr": 0.05,
    "eta_lr": 0.05,
    "eta_lr_end": 0.001,
    "precision_steps": PrecisionSteps.GRADIENT.value,
}
"""What is not given, where a hyper-step comes after an epoch; see docs/settings.md for where it comes from."""

_WHILE_TRAINING: dict[str, Any] = {
    "hyper_lr": 0.02,
    "eta_lr": 0.02,
    "eta_lr_end": 0.001,
    "precision_steps": PrecisionSteps.FIXED_POINT.value,
}
"""The same, where hyper-steps come while the weights are trained; the rest follows from the number of examples."""


_SAMPLES = {NoiseName.STRATIFIED: 16, NoiseName.INDEPENDENT: 31}
_RESOLVED = ("epochs", "batch_size", "samples", "weight_samples", "hyper_lr", "precision_steps", "eta_lr", "eta_lr_end")


class AveragesName(StrEnum):
    """How averages over the views of an example enter the evidence."""

    PLAIN = "plain"
    """As they are. Few views then make the curvature too large and the log-likelihood too small."""
    UNBIASED = "unbiased"
    """With what their variance adds taken off."""


class FinalName(StrEnum):
    """How the evidence of a finished run is found."""

    ESTIMATE = "estimate"
    """At a small part of the cost of the run: from running averages, or from some of the examples."""
    EXACT = "exact"
    """By a pass over all examples with all columns of the output Hessian's root."""


class OptimiserName(StrEnum):
    """The optimisers of the weights."""

    ADAM = "adam"
    SGD = "sgd"


@dataclass(frozen=True)
class Settings:
    """How to train. What is None follows from the passes and the number of examples; see `docs/settings.md`.

    Attributes:
        method: "lila" or what it is compared with: see `lila.training.methods`.
        epochs: passes over the data; None for 3,000 batches, but between 10 and 100 epochs.
        batch_size: examples per step of the weights; None for a twentieth of them, but between 25 and 250.
        samples: S, transformations per example in the evidence and in predictions; None is 16 if they are stratified,
            and the paper's 31 if they are independent.
        weight_samples: transformations per example in a step of the weights, at most S; None is 2 for "running"
            passes, and S for others.
        noise: how the transformations of one example are drawn: "stratified" or, as in the paper, "independent".
        averages: how averages over the transformations enter the evidence: "plain", as in the paper, or "unbiased",
            which takes off what few of them add. The latter needs independent noise and Kronecker factors.
        optimiser: of the weights: "adam" or "sgd".
        lr: first learning rate of the weights; it decays by a cosine.
        lr_end: last learning rate of the weights.
        momentum: of SGD.
        hyper_lr: learning rate of prior precisions and observation noise, on the evidence, by Adam. With "running"
            passes it is that of the observation noise alone, as precisions are set to where the evidence is largest.
        precision_steps: how prior precisions follow the evidence: by a "gradient" step after an epoch, as in the paper,
            or to their "fixed-point"; None is the latter for "running" passes, which have no other.
        eta_lr: first learning rate of the augmentation's parameters, by Adam; it decays by a cosine.
        eta_lr_end: their last learning rate.
        burn_in: epochs before the ranges move; None for when the network explains half of the targets' variation
            ("running" passes), or 10.
        hyper_every: epochs, or batches with "running" passes, from one hyper-step to the next; None is 1 epoch, or as
            many batches as make one view of a hyper-step per example.
        hyper_batch: examples in a hyper-step of "running" passes.
        structure: of the curvature: "kron", "diag" or "full".
        curvature: "ggn" or "ef".
        passes: how hyper-steps go over the data: "running", "exact", "probed" or "sampled".
        probes: random probes per example in the estimate of the evidence; None is all columns for "exact" passes, and
            as many as give 1,000 over all examples for others.
        gradient_probes: random probes per example in its gradient; None is all columns for "exact" passes, 1 for
            "probed" and "sampled" ones, and as many as `probes` for "running" ones, where the same serve for both.
        subset: examples per gradient of the evidence, rescaled, for passes after an epoch; None uses all that the
            estimate uses.
        prior: structure of the prior: "scalar", "layerwise" or "diagonal".
        precision: prior precision from which learning starts.
        weight_decay: of the methods that do not learn the prior: the precision is this times the number of examples.
        eta_reward: how much Augerino's loss rewards the norm of eta.
        final_evidence: how the evidence of the finished run is found: "estimate", at a small part of the run's cost, or
            "exact".
        seed: of noise and shuffling; for `lila train` also of the split, the subset and the transformation of the data,
            and of the network's first weights.
        microbatch: examples in memory at a time in a hyper-step; a step of the weights, whose graph is smaller, takes
            `step_to_pass` times as many. It does not change the result but by rounding. None chooses it from the
            memory.
        memory: how much memory a microbatch may take, as "4GiB"; None is half of what is free at the start.
        checkpoint_every: epochs from one checkpoint to the next.
    """

    method: str = "lila"
    epochs: int | None = None
    batch_size: int | None = None
    samples: int | None = None
    weight_samples: int | None = None
    noise: str = "stratified"
    averages: str = "plain"
    optimiser: str = "adam"
    lr: float = 0.005
    lr_end: float = 0.0001
    momentum: float = 0.9
    hyper_lr: float | None = None
    precision_steps: str | None = None
    eta_lr: float | None = None
    eta_lr_end: float | None = None
    burn_in: int | None = None
    hyper_every: int | None = None
    hyper_batch: int = 32
    structure: str = "kron"
    curvature: str = "ggn"
    passes: str = "running"
    probes: int | None = None
    gradient_probes: int | None = None
    subset: int | None = None
    prior: str = "layerwise"
    precision: float = 1.0
    weight_decay: float = 1e-4
    eta_reward: float = 1e-2
    final_evidence: str = "estimate"
    seed: int = 0
    microbatch: int | None = None
    memory: str | None = None
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        choose(MethodName, self.method, "method")
        choose(OptimiserName, self.optimiser, "optimiser")
        choose(PassesName, self.passes, "kind of passes")
        choose(NoiseName, self.noise, "kind of noise")
        choose(AveragesName, self.averages, "kind of averages")
        find_structure(self.structure)
        choose(CurvatureKind, self.curvature, "curvature")
        choose(PriorStructure, self.prior, "prior structure")
        if self.precision_steps is not None:
            choose(PrecisionSteps, self.precision_steps, "way of precision steps")
        choose(FinalName, self.final_evidence, "way to find the final evidence")
        for name in ("hyper_batch", "checkpoint_every"):
            check_count(name, getattr(self, name))
        for name in (
            "epochs",
            "batch_size",
            "samples",
            "weight_samples",
            "hyper_every",
            "probes",
            "gradient_probes",
            "subset",
            "microbatch",
        ):
            check_count(name, getattr(self, name), optional=True)
        for name in ("burn_in", "seed", "momentum", "eta_reward", "lr_end", "eta_lr_end"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ArgumentError(f"{name} must not be negative, but is {value}.")
        burn_in = -1 if self.burn_in is None else self.burn_in
        if self.epochs is not None and self.how.eta is By.EVIDENCE and burn_in >= self.epochs:
            raise ArgumentError(
                f"With {self.epochs} epochs and a burn-in of {self.burn_in} there is no hyper-step, so that nothing "
                "would be learned about the transformations. Take more epochs, or a shorter burn-in."
            )
        if None not in (self.samples, self.weight_samples) and (self.weight_samples or 0) > (self.samples or 0):
            raise ArgumentError(
                f"A step of the weights takes at most as many samples as the evidence does, but weight_samples is "
                f"{self.weight_samples} and samples {self.samples}."
            )
        if self.passes == PassesName.RUNNING and self.subset is not None:
            raise ArgumentError(
                "subset is for passes over the data after an epoch; with passes='running' hyper_batch says how many "
                "examples a hyper-step uses."
            )
        if self.passes == PassesName.RUNNING and self.precision_steps == PrecisionSteps.GRADIENT:
            raise ArgumentError(
                "precision_steps='gradient' is for passes over the data after an epoch; with passes='running' prior "
                "precisions move to their fixed point."
            )
        if self.memory is not None:
            parse_bytes(self.memory)
        for name in ("lr", "hyper_lr", "eta_lr", "precision", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ArgumentError(f"{name} must be positive, but is {value}.")

    def resolved(self, examples: int) -> "Resolved":
        """The same with a value for what is None and follows from the passes and the number of examples.

        `burn_in` and `hyper_every` stay None for "running" passes: they follow from how training goes.
        """
        samples = self.samples or _SAMPLES[NoiseName(self.noise)]
        if self.passes == PassesName.RUNNING:
            batch = self.batch_size or min(max(examples // _BATCHES, _LEAST_BATCH), _MOST_BATCH, examples)
            epochs = min(max(ceil(_STEPS / ceil(examples / batch)), _LEAST_EPOCHS), _MOST_EPOCHS)
            defaults = _WHILE_TRAINING | {"batch_size": batch, "epochs": epochs, "weight_samples": min(2, samples)}
        else:
            defaults = _AFTER_EPOCHS | {"weight_samples": samples}
        defaults |= {"samples": samples}
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return Resolved(**(given | {name: value for name, value in defaults.items() if given[name] is None}))

    @property
    def how(self) -> Method:
        """What the method does."""
        return METHODS[MethodName(self.method)]

    def probe_counts(self, examples: int) -> tuple[int | None, int | None]:
        """Probes per example in the estimate and in the gradient, for a number of examples; None for all columns."""
        if self.passes == PassesName.EXACT:
            return self.probes, self.gradient_probes
        enough = ceil(_ENOUGH_PROBES / (self.sampled(examples) or examples))
        if self.passes == PassesName.RUNNING:  # the same columns give both
            return self.probes or enough, self.gradient_probes or self.probes or enough
        return self.probes or enough, self.gradient_probes or 1

    def sampled(self, examples: int) -> int | None:
        """How many examples a hyper-step uses, of a number of them; None for all."""
        return ceil(examples / _SAMPLED) if self.passes == PassesName.SAMPLED else None

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Settings from what `dataclasses.asdict` gave; a name that is unknown is an error, not ignored."""
        unknown = [name for name in values if name not in {field.name for field in fields(cls)}]
        if unknown:
            known = ", ".join(field.name for field in fields(cls))
            raise ArgumentError(f"There is no setting {unknown[0]!r}. Settings are: {known}.")
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Resolved(Settings):
    """Settings in which everything has a value that follows from the passes and the number of examples.

    They are those of a run, made by `Settings.resolved` or read from its folder.
    """

    epochs: int
    batch_size: int
    samples: int
    weight_samples: int
    hyper_lr: float
    precision_steps: str
    eta_lr: float
    eta_lr_end: float

    def __post_init__(self) -> None:
        for name in _RESOLVED:
            if getattr(self, name) is None:
                raise ArgumentError(f"The setting {name} is missing.")
        super().__post_init__()

    @property
    def part(self) -> int:
        """Examples of a step of the weights whose graph is in memory at a time."""
        whole = self.batch_size
        return whole if self.microbatch is None else min(max(int(self.step_to_pass * self.microbatch), 1), whole)

    @property
    def step_to_pass(self) -> float:
        """How many examples of a step of the weights take about the memory of one in a hyper-step."""
        return _STEP_TO_PASS[PassesName(self.passes)] * self.samples / self.weight_samples
