"""All settings of a run in one frozen object, checked when it is made, written into the run and read back from it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import ceil, inf, isfinite
from typing import Any, Self

from lila._util.arguments import check_names, suggests_arguments
from lila._util.choices import check_count, choose, is_number
from lila._util.memory import parse_bytes
from lila.augment.noise import NoiseName
from lila.curvature import CurvatureKind, UnknownName, find_structure
from lila.errors import ArgumentError
from lila.model.prior import PriorMean, PriorStructure
from lila.training.choices import (
    OPTIMISERS,
    SCHEDULES,
    ArithmeticName,
    AveragesName,
    FinalName,
    OptimiserName,
    PassesName,
    PrecisionSteps,
    ScheduleEvery,
    ScheduleName,
)
from lila.training.methods import PROCEDURES, LearnedBy, MethodName, Procedure

_ENOUGH_PROBES = 1_000  # over all examples: see docs/speed.md
_SAMPLED = 3  # "sampled" passes take one of so many examples
_BATCHES, _LEAST_BATCH, _MOST_BATCH = 20, 25, 250  # default batches in an epoch, and bounds on their size
_STEPS, _LEAST_EPOCHS, _MOST_EPOCHS = 3_000, 10, 100  # default steps of a run, and bounds on its epochs
_MICROBATCH_RATIO = {PassesName.EXACT: 4.0, PassesName.PROBED: 1.5, PassesName.SAMPLED: 1.5, PassesName.RUNNING: 1.5}

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
"""Defaults where a hyper-step follows an epoch; docs/settings.md says where each comes from."""

_WHILE_TRAINING: dict[str, Any] = {
    "hyper_lr": 0.02,
    "eta_lr": 0.02,
    "eta_lr_end": 0.001,
    "precision_steps": PrecisionSteps.FIXED_POINT.value,
}
"""Defaults where hyper-steps come while the weights are trained; the rest follows from the number of examples."""

_SAMPLES = {NoiseName.STRATIFIED: 16, NoiseName.INDEPENDENT: 31}
_RESOLVED = ("epochs", "batch_size", "samples", "weight_samples", "hyper_lr", "precision_steps", "eta_lr", "eta_lr_end")


@suggests_arguments
@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train. What is None follows from the passes and the number of examples; see `docs/settings.md`.

    Attributes:
        method: "lila", or one of the methods that it is compared with.
        epochs: passes over the data; None for 3,000 batches, but between 10 and 100 epochs.
        batch_size: examples per step of the weights; None for a twentieth of them, but between 25 and 250.
        samples: S, transformations per example in the evidence and in predictions; None is 16 if they are stratified,
            and the paper's 31 if they are independent.
        weight_samples: transformations per example in a step of the weights, at most S; None is 2 for "running"
            passes, and S for others.
        noise: how the transformations of one example are drawn: "stratified" or, as in the paper, "independent".
        averages: how averages over the transformations enter the evidence: "plain", as in the paper, or "unbiased",
            which corrects for their small number. The latter needs independent noise and Kronecker factors.
        optimiser: of the weights, by the name of its class in `torch.optim`, such as "adam", "adamw" or "sgd".
        optimiser_options: further arguments of that class. Its weight decay is 0 if it is not among them, as the prior
            decays the weights.
        schedule: of the weights' learning rate: "cosine" from `lr` to `lr_end` over the whole run, or the name of a
            class of `torch.optim.lr_scheduler`, such as "onecyclelr".
        schedule_options: further arguments of that class.
        schedule_every: "batch" or "epoch", after which such a schedule takes a step; None is what PyTorch's
            documentation says of the class: a batch for OneCycleLR and CyclicLR, an epoch for others.
        lr: first learning rate of the weights.
        lr_end: last learning rate of the weights, of the schedule "cosine".
        momentum: of SGD.
        arithmetic: of steps of the weights: "full", "mixed" for `torch.autocast` with bfloat16, or "auto" for mixed on
            devices that have instructions for bfloat16. Hyper-steps, the transformations, and all results compute in
            the precision of the weights in any case.
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
        unknown: what to do with parameters that have no curvature rule: "refuse" the network, or "freeze" them.
        passes: how hyper-steps go over the data: "running", "exact", "probed" or "sampled".
        probes: random probes per example in the estimate of the evidence; None is all columns for "exact" passes, and
            as many as give 1,000 over all examples for others.
        gradient_probes: random probes per example in its gradient; None is all columns for "exact" passes, 1 for
            "probed" and "sampled" ones, and as many as `probes` for "running" ones, where the same serve for both.
        gradient_examples: examples in a gradient of the evidence, rescaled, for passes after an epoch; None takes as
            many as the estimate.
        prior: structure of the prior: "scalar", "layerwise" or "diagonal".
        prior_mean: mean of the prior: "zero", or "start" for the weights that the run begins with (fine-tuning).
        precision: prior precision from which learning starts.
        weight_decay: of the methods that do not learn the prior: the precision is this times the number of examples.
        eta_reward: how much Augerino's loss rewards the norm of eta.
        final_evidence: how the evidence of the finished run is computed: "estimate", at a small part of the run's cost,
            or "exact".
        seed: of noise and shuffling; for `lila train` also of the split, the subset and the transformation of the data,
            and of the network's first weights.
        microbatch: examples in memory at a time in a hyper-step; a step of the weights, whose graph is smaller, takes
            more. It changes the result by rounding only; None chooses it from the memory.
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
    optimiser_options: dict[str, Any] | None = None
    schedule: str = "cosine"
    schedule_options: dict[str, Any] | None = None
    schedule_every: str | None = None
    lr: float = 0.005
    lr_end: float = 0.0001
    momentum: float = 0.9
    arithmetic: str = "full"
    hyper_lr: float | None = None
    precision_steps: str | None = None
    eta_lr: float | None = None
    eta_lr_end: float | None = None
    burn_in: int | None = None
    hyper_every: int | None = None
    hyper_batch: int = 32
    structure: str = "kron"
    curvature: str = "ggn"
    unknown: str = "refuse"
    passes: str = "running"
    probes: int | None = None
    gradient_probes: int | None = None
    gradient_examples: int | None = None
    prior: str = "layerwise"
    prior_mean: str = "zero"
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
        self._check_optimisation()
        choose(PassesName, self.passes, "kind of passes")
        choose(NoiseName, self.noise, "kind of noise")
        choose(AveragesName, self.averages, "kind of averages")
        choose(ArithmeticName, self.arithmetic, "arithmetic")
        find_structure(self.structure)
        choose(CurvatureKind, self.curvature, "curvature")
        choose(PriorStructure, self.prior, "prior structure")
        choose(PriorMean, self.prior_mean, "prior mean")
        choose(UnknownName, self.unknown, "way with parameters that have no rule")
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
            "gradient_examples",
            "microbatch",
        ):
            check_count(name, getattr(self, name), optional=True)
        for name in ("burn_in", "seed"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, int):
                raise ArgumentError(f"{name} must be a whole number, but is {value!r}.")
        for name in ("burn_in", "seed", "momentum", "eta_reward", "lr_end", "eta_lr_end"):
            value = getattr(self, name)
            if value is not None and (not is_number(value) or not 0 <= value < inf):
                raise ArgumentError(f"{name} must be finite and not negative, but is {value!r}.")
        burn_in = -1 if self.burn_in is None else self.burn_in
        if self.epochs is not None and self.procedure.eta is LearnedBy.EVIDENCE and burn_in >= self.epochs:
            raise ArgumentError(
                f"With {self.epochs} epochs and a burn-in of {self.burn_in} there is no hyper-step, so that nothing "
                "would be learned about the transformations. Take more epochs, or a shorter burn-in."
            )
        if None not in (self.samples, self.weight_samples) and (self.weight_samples or 0) > (self.samples or 0):
            raise ArgumentError(
                f"A step of the weights takes at most as many samples as the evidence does, but weight_samples is "
                f"{self.weight_samples} and samples {self.samples}."
            )
        if self.passes == PassesName.RUNNING and self.gradient_examples is not None:
            raise ArgumentError(
                "gradient_examples is for passes over the data after an epoch; with passes='running' hyper_batch says "
                "how many examples a hyper-step uses."
            )
        if self.passes == PassesName.RUNNING and self.precision_steps == PrecisionSteps.GRADIENT:
            raise ArgumentError(
                "precision_steps='gradient' is for passes over the data after an epoch; with passes='running' prior "
                "precisions move to their fixed point."
            )
        if self.memory is not None:
            parse_bytes(self.memory, "memory")
        for name in ("lr", "hyper_lr", "eta_lr", "precision", "weight_decay"):
            value = getattr(self, name)
            if value is not None and (not is_number(value) or not 0 < value < inf):
                raise ArgumentError(f"{name} must be positive and finite, but is {value!r}.")

    def _check_optimisation(self) -> None:
        """Check the optimiser of the weights and its schedule, whose names may be given in any case."""
        optimiser = choose(OptimiserName, str(self.optimiser).lower(), "optimiser", offered=OPTIMISERS)
        schedule = choose(ScheduleName, str(self.schedule).lower(), "schedule", offered=SCHEDULES)
        for name, chosen in (("optimiser", optimiser), ("schedule", schedule)):
            object.__setattr__(self, name, chosen.value)
            _check_options(f"{name}_options", getattr(self, f"{name}_options"))
        if self.schedule == ScheduleName.COSINE and (self.schedule_options or self.schedule_every):
            raise ArgumentError(
                "schedule_options and schedule_every are for the schedules of PyTorch; the schedule 'cosine' goes from "
                "lr to lr_end."
            )
        if self.schedule_every is not None:
            choose(ScheduleEvery, self.schedule_every, "moment of a schedule's steps")

    def resolved(self, examples: int) -> "ResolvedSettings":
        """Fill in each setting that is None and follows from the passes and the number of examples.

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
        return ResolvedSettings(**(given | {name: value for name, value in defaults.items() if given[name] is None}))

    @property
    def procedure(self) -> Procedure:
        """What the method learns, and by which quantity."""
        return PROCEDURES[MethodName(self.method)]

    def probe_counts(self, examples: int) -> tuple[int | None, int | None]:
        """Probes per example in the estimate and in the gradient, for a number of examples; None for all columns."""
        if self.passes == PassesName.EXACT:
            return self.probes, self.gradient_probes
        enough = ceil(_ENOUGH_PROBES / (self.examples_per_estimate(examples) or examples))
        if self.passes == PassesName.RUNNING:  # the same columns give both
            return self.probes or enough, self.gradient_probes or self.probes or enough
        return self.probes or enough, self.gradient_probes or 1

    def examples_per_estimate(self, examples: int) -> int | None:
        """Return how many of the training examples an estimate of the evidence uses; None for all."""
        return ceil(examples / _SAMPLED) if self.passes == PassesName.SAMPLED else None

    @classmethod
    def from_dict(cls, values: dict[str, Any], beside: Iterable[str] = ()) -> Self:
        """Make settings from the values of `dataclasses.asdict`; an unknown name is an error.

        Args:
            values: of the settings, by name.
            beside: names of other arguments of whoever was given these values, one of which may be meant by a name
                that is unknown.
        """
        known = [field.name for field in fields(cls)]
        check_names(values, known, "There is no setting", listed="Settings are", beside=beside)
        return cls(**values)


def _check_options(name: str, options: Any) -> None:
    """Raise ArgumentError unless options are plain values by name, as a run's folder can hold them."""
    if options is None:
        return
    if not isinstance(options, dict):
        raise ArgumentError(f"{name} must be a dictionary, but is {options!r}.")
    for key, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        plain = all(v is None or isinstance(v, int | str) or (isinstance(v, float) and isfinite(v)) for v in values)
        if not isinstance(key, str) or not plain:
            raise ArgumentError(
                f"{name}[{key!r}] must be a number, a text, or a list of these, but is {value!r}. For anything else "
                "give a function that makes the optimiser or the schedule."
            )


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings(Settings):
    """The settings of a run, in which nothing is None that follows from the passes and the number of examples.

    `Settings.resolved` makes them; a run's folder holds them.
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
    def weight_microbatch(self) -> int:
        """Examples in a step of the weights whose graph is in memory at a time."""
        whole = self.batch_size
        return whole if self.microbatch is None else min(max(int(self.microbatch_ratio * self.microbatch), 1), whole)

    @property
    def microbatch_ratio(self) -> float:
        """Examples in a step of the weights that take about as much memory as one example in a hyper-step."""
        return _MICROBATCH_RATIO[PassesName(self.passes)] * self.samples / self.weight_samples
