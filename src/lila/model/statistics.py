"""Normalisations whose statistics stay as they are, so that the examples of a batch do not influence each other."""

from functools import partial
from typing import TypeVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from lila.errors import ModelError

M = TypeVar("M", bound=nn.Module)


def freeze_statistics(net: M) -> M:
    """Put every batch norm of a network into evaluation mode for good, and return the network.

    The running mean and variance of each channel are constants from then on, also after `net.train()`. What is left of
    a batch norm is a scale and a shift of each channel, which are trained on. Copies of the network and networks that
    are unpickled stay so too. An instance norm with running statistics is treated alike.

    Statistics that nobody has collected are a mean of 0 and a variance of 1. So call it on a network that was trained
    with batch norm before, or whose statistics were collected by running it in training mode on some data. For a
    network that is trained from the start, convert batch norm to `nn.GroupNorm` instead.

    Args:
        net: the network, which is changed in place.

    Raises:
        ModelError: a batch norm keeps no running statistics.
    """
    norms = {name: module for name, module in net.named_modules() if isinstance(module, _NormBase)}
    missing = [name for name, norm in norms.items() if isinstance(norm, _BatchNorm) and norm.running_mean is None]
    if missing:
        raise ModelError(
            f"The batch norms {missing} keep no running statistics (track_running_stats=False), so that there is "
            "nothing to normalise by in evaluation mode. Use nn.GroupNorm in their place."
        )
    for norm in norms.values():
        if norm.track_running_stats:
            norm.eval()
            # An attribute is found before the method of the class, and is copied and pickled with the module.
            setattr(norm, "train", partial(_stay_in_evaluation_mode, norm))  # noqa: B010
    return net


def _stay_in_evaluation_mode(module: M, mode: bool = True) -> M:
    """Take the place of `nn.Module.train`."""
    return module
