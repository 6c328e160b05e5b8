"""One rule per type of layer: how its weights act, seen as a grouped linear map at many positions.

Every supported layer computes, at each position t of an example and in each group r,

    y[t, r, o] = sum_d W[r, o, d] a[t, r, d],

where the last input is a constant 1 if the layer has a bias. With g = df/dy the Jacobian of an output f is
df/dW[r, o, d] = sum_t g[t, r, o] a[t, r, d], and every curvature structure follows from a and g alone.

Indices used throughout: v views (one per example and sample), t positions, r groups, o outputs, d inputs of a group. A
network may fold positions into the batch (frames, say); the first dimension is then a multiple of v, view by view, and
the tape takes them apart again.
"""

from abc import ABC, abstractmethod
from enum import Enum
from math import prod

import torch.nn.functional as F
from torch import Tensor, nn

from lila.model.fixup import Bias, Scale


class Sharing(Enum):
    """How the Kronecker structure treats the positions at which a layer's weights are shared."""

    EXPAND = "expand"
    """Each position counts as an example of its own: sum_t a a' and sum_t g g' (KFAC-expand)."""
    REDUCE = "reduce"
    """The sum over positions is done in the Jacobian, which is exact; for layers with few weights per group."""


class Rule(ABC):
    """How a layer type turns its input and output gradient into a and g.

    Attributes:
        weight: name of the parameter whose entries multiply inputs, None if there is none.
        bias: name of the parameter that is added, None if there is none.
        sharing: what the Kronecker structure does with positions.
    """

    weight: str | None = "weight"
    bias: str | None = "bias"
    sharing: Sharing = Sharing.EXPAND

    @abstractmethod
    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        """(r, o, d) of the weight: its entries, reshaped to that, are W without the bias."""

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        """What is averaged over the samples: shape (v, ...); anything not linear in x belongs here."""
        return x

    @abstractmethod
    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        """The inputs a of the weight, shape (v, t, r, d), linear in the features x."""

    @abstractmethod
    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        """A gradient in the layer's output, or its sum over samples, arranged as (v, t, r, o): linear, row by row."""


class LinearRule(Rule):
    """`nn.Linear` with any leading dimensions; those after the first are positions."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.Linear)
        return 1, module.out_features, module.in_features

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return split_positions(x, 1)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.unsqueeze(2)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return split_positions(g, 1).unsqueeze(2)


class ConvRule(Rule):
    """`nn.Conv1d` and `nn.Conv2d`: a linear map of the patch at each position, in each group of channels."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.Conv1d | nn.Conv2d)
        return (
            module.groups,
            module.out_channels // module.groups,
            module.in_channels // module.groups * prod(module.kernel_size),
        )

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv1d | nn.Conv2d)
        # Padding of any mode, as (left, right, top, bottom) in the order F.pad takes; unfolding then adds none.
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = F.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        kernel, stride, dilation = module.kernel_size, module.stride, module.dilation
        if len(kernel) == 1:  # a sequence is an image of height 1
            x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
        patches = F.unfold(x, kernel, dilation=dilation, stride=stride)  # (v, r d, t)
        return patches.unflatten(1, (module.groups, -1)).permute(0, 3, 1, 2)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv1d | nn.Conv2d)
        return g.flatten(2).unflatten(1, (module.groups, -1)).permute(0, 3, 1, 2)


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
        return self.outputs(module, x)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g.flatten(2).mT.unsqueeze(3) if g.dim() > 2 else g[:, None, :, None]


class ScaleRule(Rule):
    """A scalar that multiplies every element: `lila.model.fixup.Scale`."""

    weight, bias = "scale", None
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        return 1, 1, 1

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return _elements(x)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x[:, :, None, None]

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return _elements(g)[:, :, None, None]


class BiasRule(Rule):
    """A scalar added to every element, `lila.model.fixup.Bias`: a constant input, so one position stands for all."""

    weight, bias = None, "bias"
    sharing = Sharing.REDUCE

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        return 1, 1, 0

    def features(self, module: nn.Module, x: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], 0)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return x[:, None, None, :]

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        return g.sum(tuple(range(1, g.dim())))[:, None, None, None]


def _elements(x: Tensor) -> Tensor:
    """All elements of a view as positions, (v, t): the channels last, which is how the passes lay images out."""
    return x.movedim(1, -1).flatten(1)


def split_positions(x: Tensor, trailing: int) -> Tensor:
    """Arrange (v, positions..., features...) as (v, t, d), where the last `trailing` dimensions are features."""
    return x.reshape(x.shape[0], -1, prod(x.shape[-trailing:]))


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: LinearRule(),
    nn.Conv1d: ConvRule(),
    nn.Conv2d: ConvRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.GroupNorm: GroupNormRule(),
    Scale: ScaleRule(),
    Bias: BiasRule(),
}


def register_rule(layer: type[nn.Module], rule: Rule) -> None:
    """Say how the curvature of a layer type is computed; it holds for its subclasses too.

    Every estimate of the evidence first checks on a few views that the rule reproduces the gradients that autograd
    gives, and that its inputs and outputs are linear. A rule that is wrong for these views is an error.
    """
    _RULES[layer] = rule


def rule_for(module: nn.Module) -> Rule | None:
    """The rule of a layer: that of its type or of the nearest parent type that has one."""
    return next((_RULES[parent] for parent in type(module).__mro__ if parent in _RULES), None)


def known_layers() -> list[str]:
    """Names of the layer types that have a rule."""
    return [layer.__name__ for layer in _RULES]
