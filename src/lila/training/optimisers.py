"""The learning rates of `torch.optim` optimisers, and their state as named tensors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import cos, pi
from typing import Any

import torch
from torch import Tensor

from lila.errors import ArgumentError

_NUMBER = "number."  # begins the name of what is a number, not a tensor, in the state of an optimiser


def cosine(start: float, end: float, progress: float) -> float:
    """Return a rate that falls from start to end along half a cosine while progress goes from 0 to 1."""
    return end + (start - end) * (1 + cos(pi * min(progress, 1.0))) / 2


def optimised(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    """Return the parameters that an optimiser steps."""
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def optimiser_tensors(name: str, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by names that begin with its own, tensors not copied.

    Of an optimiser that is not PyTorch's own, the numbers in its groups of parameters belong to the state too, as some
    change them. Those of PyTorch's follow from the settings and the schedule.

    Raises:
        ArgumentError: the optimiser keeps something for a parameter that is neither a tensor nor a number.
    """
    found: dict[str, Tensor] = {}
    for position, parameter in enumerate(optimised(optimiser)):
        for key, value in optimiser.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                found[f"optimiser.{name}.{position}.{key}"] = value
            elif isinstance(value, int | float):
                found[f"optimiser.{name}.{position}.{_NUMBER}{key}"] = _as_tensor(value)
            elif value is not None:
                raise ArgumentError(
                    f"{type(optimiser).__name__} keeps a {type(value).__name__} {key!r} for its weights, which a "
                    "checkpoint cannot hold: it holds tensors and numbers. Train without a folder, or with another "
                    "optimiser."
                )
    for group, key, value in _own_numbers(optimiser):
        found[f"optimiser.{name}.group.{group}.{key}"] = _as_tensor(value)
    return found


def load_optimiser_tensors(name: str, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimiser_tensors` returned; a parameter without saved state begins anew.

    Raises:
        ArgumentError: a saved tensor has a shape that does not go with its parameter.
    """
    for position, parameter in enumerate(optimised(optimiser)):
        saved = without_prefix(tensors, f"optimiser.{name}.{position}.")
        for key, value in saved.items():
            if not _goes_with(key, value, parameter):
                raise ArgumentError(
                    f"'optimiser.{name}.{position}.{key}' has shape {tuple(value.shape)}, which does not go with that "
                    "of its parameter."
                )
        if saved:
            optimiser.state[parameter] = {
                key.removeprefix(_NUMBER): _restored(key, value, parameter) for key, value in saved.items()
            }
    for group, key, _ in _own_numbers(optimiser):
        saved_number = tensors.get(f"optimiser.{name}.group.{group}.{key}")
        if saved_number is not None and not saved_number.dim():
            optimiser.param_groups[group][key] = saved_number.item()


def _own_numbers(optimiser: torch.optim.Optimizer) -> Iterator[tuple[int, str, int | float]]:
    """Yield the numbers in the groups of an optimiser that is not PyTorch's own, with group and name."""
    if type(optimiser).__module__.startswith("torch.optim."):
        return
    for number, group in enumerate(optimiser.param_groups):
        for key, value in group.items():
            if isinstance(value, int | float):
                yield number, key, value


def _goes_with(key: str, value: Tensor, parameter: Tensor) -> bool:
    """Return whether a saved tensor is a scalar, or has the sides of its parameter, or 1 where it is reduced."""
    if key == "step" or key.startswith(_NUMBER) or not value.dim():
        return not value.dim()
    sides = zip(value.shape, parameter.shape, strict=False)
    return value.dim() == parameter.dim() and all(side in (1, whole) for side, whole in sides)


def _restored(key: str, value: Tensor, parameter: Tensor) -> Any:
    if key.startswith(_NUMBER):
        return value.item()
    return value.clone() if key == "step" else value.to(parameter.device, copy=True)


def _as_tensor(value: int | float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


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
