"""The learning rates of `torch.optim` optimisers, and their state as named tensors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import cos, pi

import torch
from torch import Tensor

from lila.errors import ArgumentError


def cosine(start: float, end: float, progress: float) -> float:
    """Return a rate that falls from start to end along half a cosine while progress goes from 0 to 1."""
    return end + (start - end) * (1 + cos(pi * min(progress, 1.0))) / 2


def optimised(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Return the parameters that an optimiser steps."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def optimiser_tensors(name: str, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by names that begin with its own, not copied."""
    return {
        f"optimiser.{name}.{position}.{key}": value
        for position, parameter in enumerate(optimised(optimiser))
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimiser_tensors(name: str, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimiser_tensors` returned; a parameter without saved state begins anew.

    Raises:
        ArgumentError: a saved tensor has another shape than its parameter.
    """
    for position, parameter in enumerate(optimised(optimiser)):
        saved = without_prefix(tensors, f"optimiser.{name}.{position}.")
        for key, value in saved.items():
            if value.shape != (() if key == "step" else parameter.shape):
                raise ArgumentError(
                    f"'optimiser.{name}.{position}.{key}' has shape {tuple(value.shape)}, which is not that of its "
                    "parameter."
                )
        if saved:
            optimiser.state[parameter] = {
                key: value.clone() if key == "step" else value.to(parameter.device, copy=True)
                for key, value in saved.items()
            }


def without_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


@contextmanager
def trainable(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Let gradients flow to some parameters within the block."""
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
