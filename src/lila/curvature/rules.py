"""One rule per type of layer: how its weights act, seen as a grouped linear map at many positions.

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


class TransposedConvRule(Rule):
    """`nn.ConvTranspose2d`: a convolution, with a flipped kernel, of the input with zeros between its pixels.

    The output at position p is the sum over kernel positions k of W[k] x[(p + padding - dilation k) / stride], where
    that index is whole and inside the image. The weight is stored with the inputs first, (r i, o, height, width). The
    layer must be called without `output_size`, which would change its output padding from call to call.
    """

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.ConvTranspose2d)
        return (
            module.groups,
            module.out_channels // module.groups,
            module.in_channels // module.groups * prod(module.kernel_size),
        )

    def to_block(self, module: nn.Module, weight: Tensor) -> Tensor:
        assert isinstance(module, nn.ConvTranspose2d)
        by_group = weight.unflatten(0, (module.groups, -1)).transpose(1, 2)  # (r, o, i, height, width)
        return by_group.flip(-2, -1).flatten(2)

    def from_block(self, module: nn.Module, block: Tensor) -> Tensor:
        assert isinstance(module, nn.ConvTranspose2d)
        by_group = block.unflatten(2, (-1, *module.kernel_size)).flip(-2, -1)  # (r, o, i, height, width)
        return by_group.transpose(1, 2).flatten(0, 1)

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, nn.ConvTranspose2d)
        (height, width), (down, right) = x.shape[-2:], module.stride
        spread = x.new_zeros(*x.shape[:-2], (height - 1) * down + 1, (width - 1) * right + 1)
        spread[..., ::down, ::right] = x
        pad = []
        for side in (1, 0):  # F.pad takes the last dimension first
            margin = module.dilation[side] * (module.kernel_size[side] - 1) - int(module.padding[side])
            pad += [margin, margin + module.output_padding[side]]
        patches = F.unfold(F.pad(spread, pad), module.kernel_size, dilation=module.dilation)  # (v, r d, t)
        return patches.unflatten(1, (module.groups, -1)).permute(0, 3, 1, 2)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        assert isinstance(module, nn.ConvTranspose2d)
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
    """Arrange all elements of a view as positions, (v, t), the channels last, as the passes lay images out."""
    return x.movedim(1, -1).flatten(1)


def split_positions(x: Tensor, trailing: int) -> Tensor:
    """Arrange (v, positions..., features...) as (v, t, d), where the last `trailing` dimensions are features."""
    return x.reshape(x.shape[0], -1, prod(x.shape[-trailing:]))


_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: LinearRule(),
    nn.Conv1d: ConvRule(),
    nn.Conv2d: ConvRule(),
    nn.ConvTranspose2d: TransposedConvRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.GroupNorm: GroupNormRule(),
    Scale: ScaleRule(),
    Bias: BiasRule(),
}


def register_rule(layer: type[nn.Module], rule: Rule) -> None:
    """Register how the curvature of a layer type, and of its subclasses, is computed.

    Every estimate of the evidence first checks on a few views that the rule reproduces the gradients that autograd
    gives, and that its inputs and outputs are linear. A rule that is wrong for these views is an error.

    Args:
        layer: the layer type.
        rule: its rule, which replaces an earlier one.
    """
    _RULES[layer] = rule


def rule_for(module: nn.Module) -> Rule | None:
    """Return the rule of the layer's type, or of the nearest parent type that has one; None if there is none."""
    return next((_RULES[parent] for parent in type(module).__mro__ if parent in _RULES), None)


def known_layers() -> list[str]:
    """Return the names of the layer types that have a rule."""
    return [layer.__name__ for layer in _RULES]
