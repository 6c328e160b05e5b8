"""Speed-up: operations that are cheaper to differentiate twice than PyTorch's own.

A convolution y = W x with constant weights is linear, so its gradient W' g is the transposed convolution, and the
gradient of that is the convolution again. PyTorch's own second derivative also computes a gradient in the weight, which
no pass needs and which costs as much as the rest of it.

The gradient (1 - t^2) g of t = tanh(x) has the gradient (1 - t^2) v in g and -2 t g v in t. PyTorch's own second
derivative keeps two more tensors of that size, and the memory of a pass limits how many examples it takes at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode


class LeanOperations(TorchFunctionMode):
    """A context in which the functions below compute tanh, and 2d convolutions whose weights need no gradient."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operation: Callable[..., Any] = _LEAN.get(func, func)
        return operation(*args, **(kwargs or {}))


def _conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
    """Compute `torch.conv2d`, whose names of arguments it has."""
    names = ("stride", "padding", "dilation", "groups")
    options: Mapping[str, Any] = dict(zip(names, args, strict=False)) | kwargs
    constant = not weight.requires_grad and (bias is None or not bias.requires_grad)
    suits = constant and input.requires_grad and input.dim() == 4 and not isinstance(options.get("padding"), str)
    if not suits or _tensors_are_watched():
        return torch.conv2d(input, weight, bias, **options)
    result: Tensor = _ConstantConvolution.apply(input, weight, bias, options)  # type: ignore[no-untyped-call]
    return result


def _tensors_are_watched() -> bool:
    """Return whether hooks on saved tensors are active; activation checkpointing relies on PyTorch's own operations."""
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
        # A stride may leave over pixels at the end. Their gradient is zero, and output_padding appends it.
        least = F.conv_transpose2d(g.new_empty(0, *g.shape[1:]), weight, **ctx.options).shape[2:]
        left_over = [size - small for size, small in zip(ctx.size, least, strict=True)]
        return F.conv_transpose2d(g, weight, output_padding=left_over, **ctx.options), None, None, None


def _tanh(input: Tensor, **kwargs: Any) -> Tensor:
    """Compute `torch.tanh`, whose names of arguments it has."""
    if kwargs or not input.requires_grad or _tensors_are_watched():
        return torch.tanh(input, **kwargs)
    result: Tensor = _Tanh.apply(input)  # type: ignore[no-untyped-call]
    return result


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return t

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        result: Tensor = _TanhBackward.apply(g, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return result


class _TanhBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, g: Tensor, t: Tensor) -> Tensor:
        ctx.save_for_backward(g, t)
        return torch.ops.aten.tanh_backward(g, t)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor, Tensor]:
        g, t = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(v, t), (v * t).mul_(g).mul_(-2)


_LEAN: Mapping[Callable[..., Any], Callable[..., Tensor]] = {
    torch.conv2d: _conv2d,
    torch.tanh: _tanh,
    Tensor.tanh: _tanh,
}
