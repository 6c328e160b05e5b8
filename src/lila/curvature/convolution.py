"""Convolutions with constant weights, as the passes over the data see them: cheaper to differentiate twice.

A convolution y = W x is linear, so its gradient W' g is the transposed convolution, and the gradient of that is the
convolution again. PyTorch's own second derivative also computes a gradient in the weight that nobody asked for, which
costs as much as the rest of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class ConstantConvolutions(TorchFunctionMode):
    """Within this context, 2d convolutions whose weights need no gradient are computed by `_ConstantConvolution`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.conv2d:
            return _conv2d(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
    """`torch.conv2d` with its own names of arguments."""
    names = ("stride", "padding", "dilation", "groups")
    options: Mapping[str, Any] = dict(zip(names, args, strict=False)) | kwargs
    constant = not weight.requires_grad and (bias is None or not bias.requires_grad)
    suits = constant and input.requires_grad and input.dim() == 4 and not isinstance(options.get("padding"), str)
    if not suits or _tensors_are_watched():
        return torch.conv2d(input, weight, bias, **options)
    result: Tensor = _ConstantConvolution.apply(input, weight, bias, options)  # type: ignore[no-untyped-call]
    return result


def _tensors_are_watched() -> bool:
    """Whether hooks on saved tensors are active, as in activation checkpointing, which wants to see PyTorch's own."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(True) is not None


class _ConstantConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: Mapping[str, Any]) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.options, ctx.size = options, x.shape[2:]
        return torch.conv2d(x, weight, bias, **options)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        # Without it, pixels that a stride leaves over at the end, whose gradient is zero, would be missing.
        least = F.conv_transpose2d(g.new_empty(0, *g.shape[1:]), weight, **ctx.options).shape[2:]
        left_over = [size - small for size, small in zip(ctx.size, least, strict=True)]
        return F.conv_transpose2d(g, weight, output_padding=left_over, **ctx.options), None, None, None
