"""Speed-up: the linear layer that a network ends in, its head, runs once per example.

Averaging over the views commutes with a linear layer: f_hat = 1/S sum_s (W h_s + b) = W (1/S sum_s h_s) + b for the
inputs h_s of the head. So columns are pulled back through W once per example rather than once per view, and the head's
own gradients g are the columns themselves, whose second moment needs no pull at all.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from lila.curvature.layers import Layer
from lila.curvature.rules import LinearRule


@dataclass(frozen=True)
class LastUse:
    """The use of a layer that ran last.

    Attributes:
        position: the position of the layer among the recorded ones.
        layer: the layer.
        x: its input.
        a: its inputs averaged over the samples, shape (b, t, r, d), with a graph.
        output: its output.
    """

    position: int
    layer: Layer
    x: Tensor
    a: Tensor
    _: KW_ONLY
    output: Tensor

    def is_head(self, returned: Any) -> bool:
        """Return whether the network returned exactly what this `nn.Linear` computed, with one position per view."""
        module = self.layer.module
        if self.output is not returned or type(module) is not nn.Linear or type(self.layer.rule) is not LinearRule:
            return False
        if self.layer.weight is None:  # the weight is frozen, so its inputs were not recorded
            return False
        made_by = self.output.grad_fn.name() if self.output.grad_fn else ""
        return self.x.dim() == 2 and made_by in ("AddmmBackward0", "MmBackward0")

    def averaged_outputs(self) -> Tensor:
        """Return f_hat, shape (b, c), computed by the head from its averaged inputs."""
        module = self.layer.module
        assert isinstance(module, nn.Linear)
        bias = None if module.bias is None else module.bias.detach()
        return F.linear(self.a[:, 0, 0, : module.in_features], module.weight.detach(), bias)
