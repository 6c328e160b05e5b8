"""Whether rules are linear: the a and g of several views together must be the averages of those of each view."""

import torch
from torch import Tensor

from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.curvature.audit.subject import Subject
from lila.curvature.autograd.recording import record
from lila.curvature.autograd.tape import Samples
from lila.errors import ModelError
from lila.model.invariant import InvariantModel


def check_averages(subject: Subject) -> None:
    """Raise ModelError if the rule of a layer is not linear, or a layer's rows cannot be told apart."""
    views = subject.views
    plain, noise = InvariantModel(subject.net, Compose(), samples=1), views.new_zeros(len(views), 1, 0)
    apart = record(plain, subject.layers, views, noise, Samples.AVERAGED, differentiable=False)
    model, noise = InvariantModel(subject.net, _Given(views), len(views)), views.new_zeros(1, len(views), 0)
    together = record(model, subject.layers, views[:1], noise, Samples.AVERAGED, differentiable=False)
    column = torch.linspace(1, 2, apart.outputs.shape[1]).to(views)
    inputs = zip(together.inputs(), apart.inputs(), strict=True)
    outputs = zip(together.pull(column[None]), apart.pull(column.expand_as(apart.outputs)), strict=True)
    differing = [_differ([(one[0], each) for one, each in pairs], subject) for pairs in (inputs, outputs)]
    crooked = [layer.name for layer, *either in zip(subject.layers, *differing, strict=True) if any(either)]
    if crooked:
        raise ModelError(
            f"The rules of the layers {crooked} are not linear: what they give for the average of several inputs or "
            "gradients is not the average of what they give for each. In a rule of your own, whatever is not linear in "
            "the layer's input belongs into `features`, which is averaged afterwards."
        )


class _Given(Augmentation):
    """Views (v, *shape) that are given, as those of a single example."""

    noise_dim = 0

    def __init__(self, views: Tensor) -> None:
        super().__init__()
        self.given = views

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.given.unsqueeze(0)


def _differ(pairs: list[tuple[Tensor, Tensor]], subject: Subject) -> list[bool]:
    """Of each pair, whether the first is not the average of the second; where that cancels, rounding is left."""
    sizes = [each.abs().mean(0).norm() for _, each in pairs]
    rounding = subject.unit**0.5 * max(sizes)
    return [
        bool((one - each.mean(0)).norm() > subject.tolerance() * size + rounding)
        for (one, each), size in zip(pairs, sizes, strict=True)
    ]
