"""Rules of linear layers and convolutions, whose weights mix the inputs of a group."""

from math import prod

import torch.nn.functional as F
from torch import Tensor, nn

from lila.curvature.rules.base import Rule, split_positions


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
    """`nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d`: a linear map of the patch at each position, in each channel group."""

    def shape(self, module: nn.Module) -> tuple[int, int, int]:
        assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        return (
            module.groups,
            module.out_channels // module.groups,
            module.in_channels // module.groups * prod(module.kernel_size),
        )

    def inputs(self, module: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        # Padding of any mode, as (left, right, top, bottom) in the order F.pad takes; unfolding then adds none.
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = F.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        kernel, stride, dilation = module.kernel_size, module.stride, module.dilation
        if len(kernel) == 3:
            return _volume_patches(x, kernel, stride, dilation).unflatten(1, (module.groups, -1)).permute(0, 3, 1, 2)
        if len(kernel) == 1:  # a sequence is an image of height 1
            x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
        patches = F.unfold(x, kernel, dilation=dilation, stride=stride)  # (v, r d, t)
        return patches.unflatten(1, (module.groups, -1)).permute(0, 3, 1, 2)

    def outputs(self, module: nn.Module, g: Tensor) -> Tensor:
        assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
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


def _volume_patches(x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """Unfold volumes (v, c, depth, height, width) into patches (v, c entries, t), as `F.unfold` does for images."""
    for side in range(3):
        reach = dilation[side] * (kernel[side] - 1) + 1
        x = x.unfold(2 + side, reach, stride[side])[..., :: dilation[side]]
    return x.permute(0, 1, 5, 6, 7, 2, 3, 4).flatten(5).flatten(1, 4)  # from (v, c, positions..., entries...)
