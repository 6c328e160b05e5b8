"""Whether arguments are the parts of a model that they are given for."""

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from lila.augment.base import Augmentation
from lila.errors import ArgumentError, ModelError
from lila.model.likelihood import Likelihood

_LIKELIHOODS = {
    "CrossEntropyLoss": "lila.Categorical()",
    "NLLLoss": "lila.Categorical()",
    "BCELoss": "lila.Bernoulli()",
    "BCEWithLogitsLoss": "lila.Bernoulli()",
    "MSELoss": "lila.Gaussian()",
    "GaussianNLLLoss": "lila.Gaussian()",
}
"""What to use in place of PyTorch's losses."""


def check_network(net: Any) -> None:
    """Raise unless this is a network that runs on one device.

    Raises:
        ArgumentError: it is no network.
        ModelError: it contains a wrapper that splits batches over devices, layers of torch.jit, or lazy parameters.
    """
    if not isinstance(net, nn.Module):
        raise ArgumentError(f"The network must be a torch.nn.Module, but is {described(net)}.")
    for name, module in net.named_modules():
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            raise ModelError(
                f"{repr(name) if name else 'The network'} is a {type(module).__name__}, which runs copies of the "
                "layers whose inputs cannot be recorded. Give the network inside it (its .module). To use several "
                "GPUs, start a process for each with torchrun; lila shares the examples among them."
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"{repr(name) if name else 'The network'} was made by torch.jit, so the inputs of its layers cannot be "
                "recorded. Give the network from which it was made."
            )
    for name, parameter in net.named_parameters():
        if is_lazy(parameter):
            raise ModelError(
                f"The parameter {name!r} has no shape yet, as in nn.LazyLinear. Run the network once on an example, "
                "net(x[:1]), before it is given to lila."
            )


def check_augmentation(augmentation: Any) -> None:
    """Raise ArgumentError unless this is an augmentation."""
    if not isinstance(augmentation, Augmentation):
        raise ArgumentError(
            f"The augmentation must be a lila.Augmentation, such as lila.Affine2d(), but is {described(augmentation)}. "
            "For a network that is not averaged over transformations, use lila.Compose() and samples=1."
        )


def check_likelihood(likelihood: Any) -> None:
    """Raise ArgumentError unless this is a likelihood."""
    if not isinstance(likelihood, Likelihood):
        meant = _LIKELIHOODS.get(type(likelihood).__name__, "lila.Categorical(), lila.Bernoulli() or lila.Gaussian()")
        raise ArgumentError(
            f"The likelihood must be a lila.Likelihood, but is {described(likelihood)}. Use {meant} in its place."
        )


def described(value: Any) -> str:
    """Return what a value is, for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself; make an instance of it, {value.__name__}()"
    return "None" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"


def check_device(device: str | torch.device | None) -> None:
    """Raise ArgumentError unless numbers can be computed on a device; None is no device in particular."""
    if device is None:
        return
    name = str(device)
    try:
        torch.device(device)
    except (RuntimeError, TypeError) as error:
        apple = ", or mps" if torch.backends.mps.is_built() else ""
        raise ArgumentError(
            f"There is no device {name!r}: give cpu, cuda, or cuda:1 for the second GPU{apple}; PyTorch can use "
            f"{_devices_here()} here."
        ) from error
    try:
        torch.ones(1, device=device).item()  # the device "meta", for one, makes tensors but no numbers
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ArgumentError(
            f"The device {name!r} cannot be used: {reason}. PyTorch can use {_devices_here()} here."
        ) from error


def _devices_here() -> str:
    """Return the names of the devices that PyTorch finds on this machine, as a text."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    apple = ["mps"] if torch.backends.mps.is_available() else []
    found = ["cpu", *gpus, *apple]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"
