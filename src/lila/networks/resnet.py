"""Residual networks without batch norm, by Fixup (Zhang, Dauphin & Ma, "Fixup initialization", 2019).

Its rules: (1) the last layer and the last convolution of each residual branch start at zero; (2) the other weights of a
branch are shrunk by L^(-1/(2m-2)), with L branches of m layers each, which is L^(-1/2) for two layers; (3) each branch
has a learned scale, and every convolution, activation and the last layer has a learned scalar bias before it.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from lila.errors import ArgumentError
from lila.model.fixup import Bias, Scale

M = TypeVar("M", nn.Conv2d, nn.Linear)


class FixupResNet(nn.Module):
    """A ResNet for small images: a convolution, three stages of basic blocks, global average pooling, a linear layer.

    Depth counts convolutions along the longest path and the linear layer: 6 n + 2 for n blocks per stage. The stages
    have `width`, 2 `width` and 4 `width` channels; the second and third halve the image. The paper's ResNets 8-8 and
    8-16 are of depth 8 with widths 8 and 16.

    Args:
        channels: of the images.
        outputs: number of classes.
        depth: 6 n + 2.
        width: channels of the first stage.
    """

    def __init__(self, channels: int, outputs: int, depth: int = 8, width: int = 8) -> None:
        super().__init__()
        per_stage = _blocks_per_stage(depth, 2)
        self._arguments = {"channels": channels, "outputs": outputs, "depth": depth, "width": width}
        self.first = nn.Sequential(_conv3x3(channels, width), Bias(), nn.ReLU())
        self.blocks = _stages(_BasicBlock, width, width, per_stage)
        self.last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), Bias(), _zero(nn.Linear(4 * width, outputs)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.blocks(self.first(x)))
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return dict(self._arguments)


class _BasicBlock(nn.Module):
    """relu(shortcut(x) + scale * conv(relu(conv(x)))), with a bias before each convolution and activation.

    Where the shape changes, the shortcut takes every second pixel and adds channels of zeros, so it has no weights.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, branches: int) -> None:
        super().__init__()
        self.stride, self.added = stride, outputs - inputs
        self.before = Bias()
        self.branch = _branch(inputs, outputs, stride, branches)

    def forward(self, x: Tensor) -> Tensor:
        biased = self.before(x)
        shortcut = x
        if self.stride > 1 or self.added:
            shortcut = F.pad(F.avg_pool2d(biased, 1, self.stride), (0, 0, 0, 0, 0, self.added))
        return F.relu(shortcut + self.branch(biased))


class WideFixupResNet(nn.Module):
    """A wide ResNet (Zagoruyko & Komodakis, 2016): activation first, stages of 16 k, 32 k and 64 k channels.

    Args:
        channels: of the images.
        outputs: number of classes.
        depth: 6 n + 4, as a block that changes the shape has a third convolution beside its two.
        widening: k. The paper's is 16-4: depth 16, k = 4.
    """

    def __init__(self, channels: int, outputs: int, depth: int = 16, widening: int = 4) -> None:
        super().__init__()
        per_stage = _blocks_per_stage(depth, 4)
        self._arguments = {"channels": channels, "outputs": outputs, "depth": depth, "widening": widening}
        self.first = nn.Sequential(_conv3x3(channels, 16), Bias())
        self.blocks = _stages(_WideBlock, 16, 16 * widening, per_stage)
        self.last = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Bias(), _zero(nn.Linear(64 * widening, outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.blocks(self.first(x)))
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return dict(self._arguments)


class _WideBlock(nn.Module):
    """shortcut + scale * conv(relu(conv(relu(x)))); where the shape changes the shortcut is a 1 x 1 convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int, branches: int) -> None:
        super().__init__()
        self.before = nn.Sequential(Bias(), nn.ReLU())
        self.branch = _branch(inputs, outputs, stride, branches)
        self.shortcut = None if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = self.before(x)
        shortcut = x if self.shortcut is None else self.shortcut(active)
        result: Tensor = shortcut + self.branch(active)
        return result


def _stages(block: Callable[[int, int, int, int], nn.Module], inputs: int, width: int, per_stage: int) -> nn.Sequential:
    """Three stages of blocks, of `width`, 2 `width` and 4 `width` channels; the second and third halve the image."""
    blocks = []
    for stage, stride in enumerate((1, 2, 2)):
        for position in range(per_stage):
            outputs = width * 2**stage
            blocks.append(block(inputs, outputs, stride if position == 0 else 1, 3 * per_stage))
            inputs = outputs
    return nn.Sequential(*blocks)


def _branch(inputs: int, outputs: int, stride: int, branches: int) -> nn.Sequential:
    """Scale * conv(relu(conv(x))), with a bias before each but the first convolution and after the scale."""
    return nn.Sequential(
        _shrunk(_conv3x3(inputs, outputs, stride), branches),
        Bias(),
        nn.ReLU(),
        Bias(),
        _zero(_conv3x3(outputs, outputs)),
        Scale(),
        Bias(),
    )


def _blocks_per_stage(depth: int, others: int) -> int:
    if depth <= others or (depth - others) % 6:
        raise ArgumentError(f"The depth of this ResNet must be 6 n + {others} for some n, but is {depth}.")
    return (depth - others) // 6


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _shrunk(conv: nn.Conv2d, branches: int) -> nn.Conv2d:
    conv.weight.data.div_(sqrt(branches))
    return conv


def _zero(layer: M) -> M:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
