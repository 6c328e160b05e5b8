"""Lean operations have the values and derivatives of PyTorch's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lila.curvature.autograd.lean_operations import LeanOperations

OPTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"stride": 2},  # leaves over pixels of a side of 8
    {"stride": (3, 2), "padding": (2, 0), "dilation": (1, 2)},
    {"groups": 2, "padding": 1},
    {"padding": "same"},
]


def derivatives(options: dict[str, Any], ours: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 9, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    channels = 4 // options.get("groups", 1)
    weight = torch.randn(6, channels, 3, 3, dtype=torch.float64, generator=generator)
    bias = torch.randn(6, dtype=torch.float64, generator=generator)
    if ours:
        with LeanOperations():
            y = F.conv2d(x, weight, bias, **options).square()
    else:
        y = F.conv2d(x, weight, bias, **options).square()
    (gradient,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    return [y, gradient, second]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_value_gradient_and_second_derivative_of_a_convolution_are_pytorchs(options: dict[str, Any]) -> None:
    for found, expected in zip(derivatives(options, True), derivatives(options, False), strict=True):
        torch.testing.assert_close(found, expected)


def test_weights_that_are_trained_keep_their_gradient() -> None:
    weight = torch.randn(2, 1, 3, 3, requires_grad=True)
    with LeanOperations():
        F.conv2d(torch.randn(1, 1, 5, 5, requires_grad=True), weight).sum().backward()
    assert weight.grad is not None


def test_a_single_unbatched_image_is_pytorchs() -> None:
    x, weight = torch.randn(1, 5, 5, requires_grad=True), torch.randn(2, 1, 3, 3)
    with LeanOperations():
        torch.testing.assert_close(torch.conv2d(x, weight), torch.conv2d(x[None], weight)[0])


def test_activation_checkpointing_sees_the_same_convolutions_twice() -> None:
    x, weight = torch.randn(1, 1, 5, 5, requires_grad=True), torch.randn(2, 1, 3, 3)
    with LeanOperations():
        y = checkpoint(torch.conv2d, x, weight, use_reentrant=False)
    y.square().sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("tanh", [torch.tanh, Tensor.tanh, torch.nn.Tanh()])
def test_value_and_derivatives_of_tanh_are_those_of_its_definition(tanh: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    with LeanOperations():
        assert type(tanh(x).grad_fn).__name__ == "_TanhBackward"
        assert torch.autograd.gradcheck(tanh, (x,))
        assert torch.autograd.gradgradcheck(tanh, (x,))
        assert tanh(x.detach()).grad_fn is None
    torch.testing.assert_close(tanh(x), 1 - 2 / ((2 * x).exp() + 1))


def test_tanh_writes_where_it_is_told_to() -> None:
    x, out = torch.randn(3), torch.empty(3)
    with LeanOperations():
        torch.tanh(x, out=out)
    torch.testing.assert_close(out, torch.tanh(x))
