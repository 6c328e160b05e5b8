"""Rules of normalisations, whose weights scale and shift each normalised element or channel."""

from math import prod

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from lila.curvature.rules.base import Rule, Sharing, split_channels, split_positions


class LayerNormRule(Rule):
    """Scale and shift of `nn.LayerNorm`: each normalised element is a group with one input."""

    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.LayerNorm)
        return prod(module.normalized_shape), 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, nn.LayerNorm)
        normalised = F.layer_norm(x, module.normalized_shape, eps=module.eps)
        return split_positions(normalised, len(module.normalized_shape))

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.unsqueeze(3)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        assert isinstance(module, nn.LayerNorm)
        return split_positions(g, len(module.normalized_shape)).unsqueeze(3)


class GroupNormRule(Rule):
    """Scale and shift of `nn.GroupNorm`: each channel is a group with one input."""

    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.GroupNorm)
        return module.num_channels, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, nn.GroupNorm)
        return F.group_norm(x, module.num_groups, eps=module.eps)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return split_channels(x)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return split_channels(g)


class BatchNormRule(GroupNormRule):
    """Scale and shift of batch norm in evaluation mode: each channel is a group with one input.

    The statistics are constants then, so that no example influences another.
    """

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, _BatchNorm)
        return module.num_features, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, _BatchNorm)
        return F.batch_norm(x, module.running_mean, module.running_var, training=False, eps=module.eps)


class InstanceNormRule(GroupNormRule):
    """Scale and shift of instance norm: each channel is a group with one input."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, _InstanceNorm)
        return module.num_features, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, _InstanceNorm)
        if module.track_running_stats:
            return F.batch_norm(x, module.running_mean, module.running_var, training=False, eps=module.eps)
        return F.instance_norm(x, eps=module.eps)
