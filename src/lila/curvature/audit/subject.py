"""The network that an audit examines: a copy, so that nothing of the user's network changes."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor, nn

from lila.augment.compose import Compose
from lila.curvature.layers import Layer
from lila.errors import ModelError
from lila.model.invariant import InvariantModel

_CANNOT = (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError)
"""What copying a network, or running it in another type than it was written for, may raise."""
_DISTURBANCE = 0.3  # of a weight, relative to itself


@dataclass(frozen=True)
class Subject:
    """A network under audit.

    Attributes:
        net: the network.
        layers: its layers.
        views: inputs, shape (v, *shape).
        is_copy: whether it is a copy of the user's network rather than that itself.
    """

    net: nn.Module
    layers: tuple[Layer, ...]
    views: Tensor
    is_copy: bool

    @classmethod
    def of(cls, net: nn.Module, layers: Iterable[Layer], views: Tensor) -> "Subject":
        """Return the network in its own type: a copy, or itself if it cannot be copied."""
        try:
            copy, is_copy = deepcopy(net), True
        except _CANNOT:
            copy, is_copy = net, False
        moved = tuple(layer.moved_to(copy) for layer in layers)
        return cls(copy, moved, views, is_copy)

    @classmethod
    def precise(cls, net: nn.Module, layers: Iterable[Layer], views: Tensor) -> "Subject":
        """Return a copy in float64; in the network's own type if it cannot be copied, or is not made for float64."""
        layers = tuple(layers)
        subject = cls.of(net, layers, views)
        if not subject.is_copy or views.dtype == torch.float64 or views.device.type == "mps":
            return subject
        wide = replace(subject, net=subject.net.double(), views=views.double())
        try:
            with torch.no_grad():
                outputs = wide.run(wide.views[:1])
        except _CANNOT:
            return cls.of(net, layers, views)
        fresh = cls.of(net, layers, views)  # without what the trial may have left behind
        is_wide = outputs.dtype == torch.float64
        return replace(fresh, net=fresh.net.double(), views=wide.views) if is_wide else fresh

    def disturbed(self) -> "Subject | None":
        """Return the same network with other weights, none of them zero; None if the network is no copy."""
        if not self.is_copy:
            return None
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.net.parameters():
                if parameter.requires_grad:
                    z = torch.randn(2, *parameter.shape, generator=generator).to(parameter)
                    scale = 1 / sqrt(parameter[0].numel()) if parameter.dim() > 1 else _DISTURBANCE
                    parameter.mul_(1 + _DISTURBANCE * z[0]).add_(scale * z[1])
        return self

    def run(self, views: Tensor) -> Tensor:
        """Return the outputs for some inputs, shape (v, c), in the memory layout that the passes use."""
        return InvariantModel(self.net, Compose(), samples=1).average(views.clone(), len(views))

    def is_finite(self) -> bool:
        """Whether all outputs are finite."""
        with torch.no_grad():
            return bool(self.run(self.views).isfinite().all())

    @property
    def unit(self) -> float:
        """The rounding error of a single operation."""
        if self.views.dtype == torch.float32 and self.views.is_cuda and _uses_tf32():
            return 2.0**-11
        return torch.finfo(self.views.dtype).eps

    def tolerance(self) -> float:
        """Return how far two ways to compute the same may be apart, as a share of its size."""
        return float(self.unit**0.4)


def differ(one: Tensor, other: Tensor, subject: Subject) -> bool:
    """Return whether outputs that should be the same differ by more than rounding."""
    return bool((one - other).abs().max() > subject.tolerance() * other.abs().max())


def memory_error(where: str | None = None) -> ModelError:
    """Return the error for a network that remembers earlier inputs."""
    return ModelError(
        "The network remembers earlier inputs: its output for an input changes with what it was given before, without "
        f"any random number drawn{where or ''}. Leave out caches of results and running statistics for the evidence."
    )


def mixing_error(where: str | None = None) -> ModelError:
    """Return the error for a network that mixes the inputs of a batch."""
    return ModelError(
        f"The output for an input depends on the other inputs of the batch{where or ''}: the network mixes the "
        "examples of a batch, so there is no likelihood of a single example, and the evidence is not defined. Leave "
        "out statistics over the batch, and whatever sorts, selects or attends across its first dimension."
    )


def _uses_tf32() -> bool:
    return torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
