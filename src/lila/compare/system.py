"""What all systems of a comparison share, what a system is, and what it finds."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment import Affine2d
from lila.augment.noise import Draw
from lila.data.task import Task
from lila.data.transformed import true_ranges
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.networks import make_model
from lila.networks.plain import mlp
from lila.networks.registry import ModelName
from lila.training.scores import evaluate

Pair = tuple[Tensor, Tensor]

_INVERSE_RATE = 5.0  # factor of the learning rate for 1 / range, which starts at 10 and has few steps to become small
_MICROBATCH = 50  # examples in memory at a time; it does not change a result


@dataclass(frozen=True)
class Conditions:
    """What all systems of a comparison share.

    Attributes:
        task: the data, held in memory.
        model: the name of the network.
        width: hidden units of the network "mlp".
        epochs: passes over the training data.
        batch_size: examples in a step of the weights.
        samples: S, views of an example in predictions and in the quantity by which ranges are learned.
        weight_samples: views of an example in a step of the weights.
        seed: of noise, shuffling, the network's first weights and the held-out examples.
        validation_share: the share of the training data that a system holds out if it needs validation data.
        inverse: whether ranges are written as 1 / eta.
        lila_seconds: the CPU seconds that lila took, for systems whose budget follows from it; None while lila runs.
    """

    task: Task
    _: KW_ONLY
    model: str = "mlp"
    width: int = 100
    epochs: int = 40
    batch_size: int = 50
    samples: int = 8
    weight_samples: int = 2
    seed: int = 0
    validation_share: float = 0.2
    inverse: bool = False
    lila_seconds: float | None = None

    @property
    def train(self) -> Pair:
        """All training images and labels."""
        assert isinstance(self.task.train, tuple), "a comparison holds its data in memory"
        return self.task.train

    @property
    def test(self) -> Pair:
        """The test images and labels."""
        assert isinstance(self.task.test, tuple), "a comparison holds its data in memory"
        return self.task.test

    @property
    def truth(self) -> dict[str, float]:
        """The range of each generator by which the images were transformed."""
        return dict(true_ranges(self.task.recipe.transform, self.task.shape))

    def held_out(self) -> tuple[Pair, Pair]:
        """Divide the training data at random: what is left for training, and what is held out for validation."""
        (x, y), count = self.train, len(self.train[0])
        order = Draw(self.seed, 1).permutation(count)
        out = max(round(self.validation_share * count), 1)
        left, held = order[out:].sort().values, order[:out].sort().values
        return (x[left], y[left]), (x[held], y[held])

    def network(self) -> nn.Module:
        """Make the network with the first weights that belong to the seed."""
        torch.manual_seed(self.seed)
        if self.model == ModelName.MLP:
            return mlp(self.task.shape, len(self.task.classes), self.width)
        return make_model(self.model, self.task.shape, len(self.task.classes))

    def augmentation(self, init: list[float] | None = None) -> Affine2d:
        """Make the augmentation whose ranges are learned: the paper's six generators."""
        return Affine2d(init=init, parameterisation="inverse" if self.inverse else "identity")

    def eta_rate(self, rate: float) -> float:
        """Return a learning rate of eta as it is for this way of writing ranges."""
        return rate * (_INVERSE_RATE if self.inverse else 1.0)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Return the settings of `fit` that all systems share, with changes."""
        shared: dict[str, Any] = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "samples": self.samples,
            "weight_samples": self.weight_samples,
            "seed": self.seed,
            "microbatch": _MICROBATCH,
        }
        return shared | changes

    def scores(self, model: InvariantModel, data: Pair | None = None) -> dict[str, float]:
        """Return the scores of a network's predictions for the test data, or for other data."""
        return evaluate(model, Categorical(), data or self.test, _MICROBATCH)

    def described(self) -> dict[str, Any]:
        """Return everything that a result depends on, as JSON holds it, but for what is measured meanwhile."""
        recipe = self.task.recipe
        names = ("model", "epochs", "batch_size", "samples", "weight_samples", "seed", "validation_share", "inverse")
        chosen = {name: getattr(self, name) for name in names}
        if self.model == ModelName.MLP:
            chosen["width"] = self.width
        data = {"data": recipe.source, "transform": recipe.transform, "subset": recipe.subset, "size": recipe.size}
        return data | chosen

    def changed(self, **changes: Any) -> "Conditions":
        """Return the same conditions with some changes."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Found:
    """What a system found.

    Attributes:
        accuracy: the share of test images that are classified correctly.
        log_likelihood: the mean log-probability of the classes of the test images.
        seconds: CPU seconds of everything that leads to the network, without its test.
        ranges: the range of each generator; None if the system has none.
        details: numbers of its own that a reader may want.
    """

    accuracy: float
    log_likelihood: float
    seconds: float
    ranges: dict[str, float] | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """A row of the comparison.

    Attributes:
        name: by which it is chosen.
        title: for tables.
        paper: where it comes from.
        run: does it.
        needs_validation: whether it holds out some of the training data.
        several_runs: whether it trains more than once.
        learns: whether it learns ranges, so that one can ask whether writing them as 1 / eta changes the answer.
        needs: the package that it needs beside lila's own; None if it needs none.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Conditions], Found]
    _: KW_ONLY
    needs_validation: bool = False
    several_runs: bool = False
    learns: bool = True
    needs: str | None = None


class Stopwatch:
    """Counts CPU seconds from when it is made until its last lap.

    CPU time of one thread depends little on what else the machine does meanwhile. As a callback of `fit`, `lap` is
    called after each epoch, so that the evidence and the test scores of the finished run do not count.
    """

    def __init__(self) -> None:
        self._started = process_time()
        self.seconds = 0.0

    def lap(self, record: object = None) -> None:
        """Note the time."""
        self.seconds = process_time() - self._started

    @property
    def now(self) -> float:
        """The CPU seconds so far."""
        return process_time() - self._started
