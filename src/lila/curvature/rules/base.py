"""What a rule of a layer type is: how its weights act, seen as a grouped linear map at many positions.

Every supported layer computes, at each position t of an example and in each group r,

    y[t, r, o] = sum_d W[r, o, d] a[t, r, d],

where the last input is a constant 1 if the layer has a bias. With g = df/dy the Jacobian of an output f is
df/dW[r, o, d] = sum_t g[t, r, o] a[t, r, d], and every curvature structure follows from a and g alone.

Indices used throughout: v views (one per example and sample), t positions, r groups, o outputs, d inputs of a group. A
network may fold positions into the batch (the frames of a video, for example). The first dimension is then a multiple
of v, view by view, and the tape separates the positions again.
"""

from abc import ABC, abstractmethod
from enum import Enum
from math import prod

from torch import Tensor, nn


class Sharing(Enum):
    """How the Kronecker structure treats the positions at which a layer's weights are shared."""

    EXPAND = "expand"
    """Each position counts as an example of its own: sum_t a a' and sum_t g g' (KFAC-expand)."""
    REDUCE = "reduce"
    """The sum over positions is done in the Jacobian, which is exact; for layers with few weights per group."""


class Rule(ABC):
    """How a layer type turns its weight, its input and its output gradient into W, a and g.

    Attributes:
        weight: the name of the parameter whose entries multiply inputs, None if there is none.
        bias: the name of the parameter that is added, None if there is none.
        sharing: what the Kronecker structure does with positions.
    """

    weight: str | None = "weight"
    bias: str | None = "bias"
    sharing: Sharing = Sharing.EXPAND

    @abstractmethod
    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        """Return (r, o, d) of the block W, without the bias."""

    def to_block(self, module: nn.Module, weight: Tensor) -> Tensor:
        """Arrange a tensor of the weight's shape as the block W, shape (r, o, d).

        By default the entries are reshaped, which holds for layers that store their weight with the outputs first.
        """
        return weight.reshape(self.shape(module))

    def from_block(self, module: nn.Module, block: Tensor) -> Tensor:
        """Arrange a block (r, o, d) as the weight: the inverse of `to_block`."""
        return block.reshape(getattr(module, str(self.weight)).shape)

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        """Return what is averaged over the samples, shape (v, ...); anything not linear in x belongs here."""
        return x

    @abstractmethod
    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        """Return the inputs a of the weight, shape (v, t, r, d), linear in the features x."""

    @abstractmethod
    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        """Arrange a gradient in the layer's output, or its sum over samples, as (v, t, r, o): linear, row by row."""


def split_positions(x: Tensor, trailing: int) -> Tensor:
    """Arrange (v, positions..., features...) as (v, t, d), where the last `trailing` dimensions are features."""
    return x.reshape(x.shape[0], -1, prod(x.shape[-trailing:]))


def split_channels(x: Tensor) -> Tensor:
    """Arrange (v, channels, positions...) as (v, t, r, 1), where each channel is a group; there may be no positions."""
    return x.flatten(2).mT.unsqueeze(3) if x.dim() > 2 else x[:, None, :, None]
