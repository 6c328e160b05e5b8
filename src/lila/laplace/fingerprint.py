"""What an estimate was made of, told by few numbers, so that an estimate of other weights is recognised.

The curvature of an estimate belongs to the weights, the augmentation and the likelihood that it was made with. A
gradient of the evidence at other values would be a mixture of two states, and look like any other gradient. The prior
may change, as the curvature does not depend on it.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from lila.errors import ArgumentError

Fingerprint = Mapping[str, object]
"""What an estimate was made of, by name: a number for each tensor, and settings."""

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # whole numbers by the bytes that they take


def fingerprint(modules: Mapping[str, nn.Module], settings: Mapping[str, object]) -> Fingerprint:
    """Return the fingerprint of all parameters and buffers of some modules, and of settings.

    Args:
        modules: the modules by name.
        settings: what else must be equal, by name.
    """
    tensors = {name: tensor for owner, module in modules.items() for name, tensor in _tensors(owner, module)}
    sums = torch.stack([_sum_of_bits(tensor).to("cpu") for tensor in tensors.values()]).tolist()
    return dict(settings) | dict(zip(tensors, sums, strict=True))


def check_same(estimate: Fingerprint, present: Fingerprint) -> None:
    """Raise ArgumentError unless an estimate has the present fingerprint."""
    differing = [name for name in [*present, *estimate] if estimate.get(name) != present.get(name)]
    if differing:
        raise ArgumentError(
            f"The estimate was made with another value of {differing[0]} than the present one: it is of another "
            "Evidence, or was made before the weights or hyperparameters changed. Make a new one first: "
            "evidence.estimate(data)."
        )


def _tensors(owner: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters and buffers of a module, each with its name."""
    for source in (module.named_parameters(), module.named_buffers()):
        for name, tensor in source:
            yield f"{owner}.{name}", tensor.detach()


def _sum_of_bits(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor's entries, read as whole numbers: exact, so that no order of summation changes it."""
    return tensor.flatten().view(_BITS.get(tensor.element_size(), torch.int8)).sum(dtype=torch.int64)
