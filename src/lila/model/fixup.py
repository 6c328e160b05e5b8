"""Small layers of networks without batch norm: the scalars of Fixup initialisation."""

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """Multiply by a learned scalar.

    Args:
        value: the scalar from which learning starts.
    """

    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([value]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Bias(nn.Module):
    """Add a learned scalar.

    Args:
        value: the scalar from which learning starts.
    """

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([value]))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
