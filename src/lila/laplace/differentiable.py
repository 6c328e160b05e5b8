"""A value whose gradient is computed by a pass over the data, as a node of PyTorch's graph."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def differentiable_value(
    value: float,
    parameters: Mapping[str, Tensor],
    constants: Iterable[Tensor],
    gradients: Callable[[], Mapping[str, Tensor]],
) -> Tensor:
    """Return a float64 scalar that is differentiable in some parameters.

    Args:
        value: the value of the scalar.
        parameters: the parameters by name.
        constants: other tensors that the value depends on. If one of them, or a parameter, is changed in place before
            `backward`, PyTorch raises an error.
        gradients: returns the gradient in each parameter by name; called by `backward`, and only then.
    """
    names = tuple(parameters)
    result: Tensor = _Value.apply(value, names, gradients, tuple(constants), *parameters.values())  # type: ignore[no-untyped-call]
    return result


class _Value(torch.autograd.Function):
    """The node; its forward pass knows the value, its backward pass asks for the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        value: float,
        names: tuple[str, ...],
        gradients: Callable[[], Mapping[str, Tensor]],
        constants: tuple[Tensor, ...],
        *parameters: Tensor,
    ) -> Tensor:
        ctx.names, ctx.gradients = names, gradients
        ctx.save_for_backward(*parameters, *constants)
        device = next(iter((*parameters, *constants))).device
        return torch.tensor(value, dtype=torch.float64, device=device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  raises an error if one of them was changed
        found = ctx.gradients()
        inner = tuple(found[name] * outer[0].to(found[name]) for name in ctx.names)
        return (None, None, None, None, *inner)
