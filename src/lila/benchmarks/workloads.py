"""The networks and data that several benchmarks measure, and an epoch of the weights, the unit of cost."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.augment import Affine2d
from lila.augment.noise import Draw
from lila.model.invariant import InvariantModel
from lila.networks.plain import mlp
from lila.networks.registry import make_model
from lila.training.choices import PassesName
from lila.training.settings import Settings

_RANGE = 0.1  # of each generator


@dataclass(frozen=True)
class Workload:
    """A network with the sizes at which it is measured.

    Attributes:
        model: the name of the network.
        shape: the shape of an image.
        samples: S, the number of views per example.
        batch: examples per step of the weights; a hyper-step takes fewer at a time, as `fit` does.
        classes: the number of outputs.
        width: the width of the hidden layer, if the network is an MLP.
        examples: the number of examples, unless the user gives another. Decomposing the factors takes the same time for
            any number of examples: for the MLP a fifth of an epoch of 1,000, but nothing beside an epoch of 60,000.
        exact_examples: the most examples for exact passes, which are compared with an epoch of as many; None for all.
            Exact passes take long, and where decompositions take little time their ratio does not depend on it.
    """

    model: str
    shape: tuple[int, int, int]
    _: KW_ONLY
    samples: int
    batch: int
    classes: int = 10
    width: int = 1000
    examples: int = 1000
    exact_examples: int | None = None

    def examples_for(self, passes: str, available: int) -> int:
        """Return on how many of the available examples a kind of passes is measured."""
        if passes != PassesName.EXACT or self.exact_examples is None:
            return available
        return min(self.exact_examples, available)

    def microbatch(self, passes: str) -> int:
        """Return how many examples a hyper-step of some kind takes at a time."""
        return ceil(self.batch / Settings(passes=passes).resolved(self.batch).microbatch_ratio)


WORKLOADS = {
    workload.model: workload
    for workload in (
        Workload("mlp", (1, 28, 28), samples=31, batch=128, examples=4000),
        Workload("cnn", (1, 28, 28), samples=31, batch=128, exact_examples=256),
        Workload("resnet-8-8", (3, 32, 32), samples=20, batch=128, exact_examples=256),
    )
}
"""The paper's networks by name, with the samples of its experiments."""


def prepare(workload: Workload, examples: int) -> tuple[InvariantModel, tuple[Tensor, Tensor]]:
    """Return an invariant network with ranges to learn, and random images with labels."""
    torch.manual_seed(0)
    net: nn.Module
    if workload.model == "mlp":
        net = mlp(workload.shape, workload.classes, workload.width)
    else:
        net = make_model(workload.model, workload.shape, workload.classes)
    with torch.no_grad():  # away from Fixup's zeros, where gradients vanish
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    x, y = torch.rand(examples, *workload.shape), torch.randint(workload.classes, (examples,))
    return InvariantModel(net, Affine2d(init=_RANGE), workload.samples).in_fast_layout(x), (x, y)


def first_examples(data: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """Return the first examples of a data set."""
    return data[0][:count], data[1][:count]


def parameter_epoch(model: InvariantModel, data: tuple[Tensor, Tensor], batch: int) -> None:
    """Train the weights for an epoch, as `fit` does (without the gradient of the prior, which costs nothing)."""
    optimiser = torch.optim.SGD(model.net.parameters(), lr=1e-6)
    for index in torch.arange(len(data[0])).split(batch):
        with torch.no_grad():
            views = model.views(data[0][index], model.draw(Draw(), index, data[0].dtype))
        _step(optimiser, model.average(views, len(index)), data[1][index])


def plain_loop(model: InvariantModel, data: tuple[Tensor, Tensor], batch: int) -> Callable[[], None]:
    """Return an epoch over images that are transformed already, as a loop written in PyTorch alone would do it."""
    with torch.no_grad():
        batches = [
            (model.views(data[0][index], model.draw(Draw(), index, data[0].dtype)), data[1][index])
            for index in torch.arange(len(data[0])).split(batch)
        ]

    def loop() -> None:
        optimiser = torch.optim.SGD(model.net.parameters(), lr=1e-6)
        for views, y in batches:
            _step(optimiser, model.net(views).unflatten(0, (len(y), -1)).mean(1), y)

    return loop


def _step(optimiser: torch.optim.Optimizer, outputs: Tensor, y: Tensor) -> None:
    optimiser.zero_grad()
    F.cross_entropy(outputs, y).backward()
    optimiser.step()
