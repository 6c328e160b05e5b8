"""All settings of a run in one frozen object, checked when it is made, written into the run and read back from it."""

from dataclasses import dataclass, fields
from enum import StrEnum
from math import ceil
from typing import Any, Self

from lila.choices import check_count, choose
from lila.curvature import CurvatureKind, StructureName
from lila.errors import ArgumentError
from lila.memory import parse_bytes
from lila.prior import PriorStructure
from lila.training.methods import METHODS, By, Method, MethodName

_ENOUGH_PROBES = 1_000  # over all examples: see docs/speed.md
_SAMPLED = 3  # one of so many examples


class PassesName(StrEnum):
    """How a hyper-step goes over the data; each is cheaper than the one before, and noisier."""

    EXACT = "exact"
    """A pass for the estimate and one for its gradient, both with all columns of the output Hessian's root."""
    PROBED = "probed"
    """The same two passes with random probes: enough of them in the first, one per example in the second."""
    SAMPLED = "sampled"
    """The same as "probed" on a third of the examples, drawn anew for each hyper-step and scaled up."""


_STEP_TO_PASS = {PassesName.EXACT: 4.0, PassesName.PROBED: 1.5, PassesName.SAMPLED: 1.5}


class OptimiserName(StrEnum):
    """The optimisers of the weights."""

    ADAM = "adam"
    SGD = "sgd"


@dataclass(frozen=True)
class Settings:
    """How to train. Defaults are the paper's for MNIST-like data unless said otherwise; see `docs/settings.md`.

    Attributes:
        method: "lila" or what it is compared with: see `lila.training.methods`.
        epochs: passes over the data.
        batch_size: examples per step of the weights.
        samples: S, transformations per example.
        optimiser: of the weights: "adam" or "sgd".
        lr: first learning rate of the weights; it decays by a cosine.
        lr_end: last learning rate of the weights.
        momentum: of SGD.
        hyper_lr: learning rate of prior precisions and observation noise, on the evidence, by Adam.
        eta_lr: first learning rate of the augmentation's parameters, by Adam; it decays by a cosine.
        eta_lr_end: their last learning rate.
        burn_in: epochs before the first hyper-step.
        hyper_every: epochs from one hyper-step to the next.
        structure: of the curvature: "kron", "diag" or "full".
        curvature: "ggn" or "ef".
        passes: how a hyper-step goes over the data: "exact", "probed" or "sampled".
        probes: random probes per example in the estimate of the evidence; None is all columns for "exact" passes, and
            as many as give 1,000 over all examples for others.
        gradient_probes: random probes per example in its gradient; None is all columns for "exact" passes, and 1 for
            others.
        subset: examples per gradient of the evidence, rescaled; None uses all that the estimate uses.
        prior: structure of the prior: "scalar", "layerwise" or "diagonal".
        precision: prior precision from which learning starts.
        weight_decay: of the methods that do not learn the prior: the precision is this times the number of examples.
        eta_reward: how much Augerino's loss rewards the norm of eta.
        seed: of noise and shuffling; for `lila train` also of the split, the subset and the transformation of the data,
            and of the network's first weights.
        microbatch: examples in memory at a time in a hyper-step; a step of the weights, whose graph is smaller, takes
            `step_to_pass` times as many. It does not change the result but by rounding. None chooses it from the
            memory.
        memory: how much memory a microbatch may take, as "4GiB"; None is half of what is free at the start.
        checkpoint_every: epochs from one checkpoint to the next.
    """

    method: str = "lila"
    epochs: int = 100
    batch_size: int = 1000
    samples: int = 31
    optimiser: str = "adam"
    lr: float = 0.005
    lr_end: float = 0.0001
    momentum: float = 0.9
    hyper_lr: float = 0.05
    eta_lr: float = 0.05
    eta_lr_end: float = 0.001
    burn_in: int = 10
    hyper_every: int = 1
    structure: str = "kron"
    curvature: str = "ggn"
    passes: str = "probed"
    probes: int | None = None
    gradient_probes: int | None = None
    subset: int | None = None
    prior: str = "layerwise"
    precision: float = 1.0
    weight_decay: float = 1e-4
    eta_reward: float = 1e-2
    seed: int = 0
    microbatch: int | None = None
    memory: str | None = None
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        choose(MethodName, self.method, "method")
        choose(OptimiserName, self.optimiser, "optimiser")
        choose(PassesName, self.passes, "kind of passes")
        choose(StructureName, self.structure, "curvature structure")
        choose(CurvatureKind, self.curvature, "curvature")
        choose(PriorStructure, self.prior, "prior structure")
        for name in ("epochs", "batch_size", "samples", "hyper_every", "checkpoint_every"):
            check_count(name, getattr(self, name))
        for name in ("probes", "gradient_probes", "subset", "microbatch"):
            check_count(name, getattr(self, name), optional=True)
        for name in ("burn_in", "seed", "momentum", "eta_reward", "lr_end", "eta_lr_end"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} must not be negative, but is {getattr(self, name)}.")
        if self.how.eta is By.EVIDENCE and self.burn_in >= self.epochs:
            raise ArgumentError(
                f"With {self.epochs} epochs and a burn-in of {self.burn_in} there is no hyper-step, so that nothing "
                "would be learned about the transformations. Take more epochs, or a shorter burn-in."
            )
        if self.memory is not None:
            parse_bytes(self.memory)
        for name in ("lr", "hyper_lr", "eta_lr", "precision", "weight_decay"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be positive, but is {getattr(self, name)}.")

    @property
    def how(self) -> Method:
        """What the method does."""
        return METHODS[MethodName(self.method)]

    @property
    def part(self) -> int:
        """Examples of a step of the weights whose graph is in memory at a time."""
        whole = self.batch_size
        return whole if self.microbatch is None else min(int(self.step_to_pass * self.microbatch), whole)

    @property
    def step_to_pass(self) -> float:
        """How many examples of a step of the weights take about the memory of one in a hyper-step."""
        return _STEP_TO_PASS[PassesName(self.passes)]

    def probe_counts(self, examples: int) -> tuple[int | None, int | None]:
        """Probes per example in the estimate and in the gradient, for a number of examples; None for all columns."""
        if self.passes == PassesName.EXACT:
            return self.probes, self.gradient_probes
        used = self.sampled(examples) or examples
        return self.probes or ceil(_ENOUGH_PROBES / used), self.gradient_probes or 1

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
