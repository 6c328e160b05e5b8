"""A check of a few seconds that the evidence and its gradient agree on this machine.

A small network sees made-up images. In float64 the gradient of the evidence must be what central differences of the
evidence give. In float32, and on the device on which one trains, evidence and gradient must be those of float64 on the
processor, but for rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lila.augment.affine import Affine2d
from lila.laplace.evidence import Evidence
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior

_IMAGES, _SIDE, _CLASSES, _VIEWS = 12, 8, 3, 4
_RANGE = 0.2  # of each transformation
_STEP = 1e-6  # of the central differences
_IN_FLOAT64 = 1e-5  # what central differences with this step allow; about 1e-9 is found
_VALUE_IN_FLOAT32, _GRADIENT_IN_FLOAT32 = 1e-4, 1e-2  # GPUs may convolve in TF32; in float32 1e-6 is found


@dataclass(frozen=True)
class Agreement:
    """Whether two ways to compute the same thing agree.

    Attributes:
        what: was compared.
        difference: the largest difference, in units of the largest value.
        allowed: the difference up to which they agree.
    """

    what: str
    difference: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether they agree; a difference that is not a number does not."""
        return self.difference <= self.allowed


def check_evidence(device: str | torch.device = "cpu") -> list[Agreement]:
    """Compare the evidence and its gradient with what they should be.

    Args:
        device: that is checked beside the processor.
    """
    exact = _problem(torch.float64, torch.device("cpu"))
    value, gradient = exact.computed()
    differences = torch.cat([_central_differences(exact.value, p) for p in exact.evidence.hyperparameters().values()])
    found = [
        Agreement(
            "gradient of the evidence, beside central differences",
            _difference(gradient, differences),
            _IN_FLOAT64,
        )
    ]
    for place in dict.fromkeys((torch.device("cpu"), torch.device(device))):
        rounded, rounded_gradient = _problem(torch.float32, place).computed()
        where = f"in float32 on {place}, beside float64"
        found += [
            Agreement(f"evidence {where}", _difference(rounded, value), _VALUE_IN_FLOAT32),
            Agreement(f"its gradient {where}", _difference(rounded_gradient, gradient), _GRADIENT_IN_FLOAT32),
        ]
    return found


@dataclass(frozen=True)
class _Problem:
    """The evidence of a network for some data."""

    evidence: Evidence
    data: tuple[Tensor, Tensor]

    def value(self) -> float:
        return self.evidence.estimate(self.data, audit=False).value

    def computed(self) -> tuple[Tensor, Tensor]:
        """Return the evidence, and its gradient in all hyperparameters, in float64 on the processor."""
        estimate = self.evidence.estimate(self.data)
        gradients = self.evidence.gradient(self.data, estimate).values()
        gradient = torch.cat([g.detach().flatten() for g in gradients]).to("cpu", torch.float64)
        return torch.tensor([estimate.value], dtype=torch.float64), gradient


def _problem(dtype: torch.dtype, device: torch.device) -> _Problem:
    """Make the same network and images in each type and on each device."""
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4 * (_SIDE - 2) ** 2, 8),
        nn.Tanh(),
        nn.Linear(8, _CLASSES),
    ).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    images = torch.rand(_IMAGES, 1, _SIDE, _SIDE, generator=generator, dtype=torch.float64)
    labels = torch.randint(_CLASSES, (_IMAGES,), generator=generator)
    augmentation = Affine2d(init=_RANGE).to(device, dtype)
    net = net.to(device, dtype)
    model = InvariantModel(net, augmentation, samples=_VIEWS)
    evidence = Evidence(model, Categorical(), GaussianPrior(net))
    return _Problem(evidence, (images.to(device, dtype), labels.to(device)))


@torch.no_grad()
def _central_differences(function: Callable[[], float], parameter: Tensor) -> Tensor:
    """Return the gradient of a function in a parameter, whose entries are changed in place one at a time."""
    entries = parameter.view(-1)
    gradient = torch.zeros(len(entries), dtype=torch.float64)
    for i, start in enumerate(entries.tolist()):
        values = []
        for shift in (_STEP, -_STEP):
            entries[i] = start + shift
            values.append(function())
        entries[i] = start
        gradient[i] = (values[0] - values[1]) / (2 * _STEP)
    return gradient


def _difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())
