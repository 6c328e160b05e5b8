"""Normalisations whose statistics stay as they are, so that the examples of a batch do not influence each other."""

from functools import partial
from math import gcd
from typing import TypeVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from lila.errors import ModelError

M = TypeVar("M", bound=nn.Module)

_CHANNELS_PER_GROUP = 16
_CONVERTED = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def freeze_statistics(net: M) -> M:
    """Put every batch norm of a network into evaluation mode for good, and return the network.

    The running mean and variance of each channel are constants from then on, also after `net.train()`. What is left of
    a batch norm is a scale and a shift of each channel, which are trained on. Copies of the network and networks that
    are unpickled stay so too. An instance norm with running statistics is treated alike.

    Statistics that nobody has collected are a mean of 0 and a variance of 1. So call it on a network that was trained
    with batch norm before, or whose statistics were collected by running it in training mode on some data. For a
    network that is trained from the start, use group norm instead (`lila.convert_batch_norm`).

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
            "nothing to normalise by in evaluation mode. Use group norm in their place (lila.convert_batch_norm)."
        )
    for norm in norms.values():
        if norm.track_running_stats:
            norm.eval()
            # An attribute is found before the method of the class, and is copied and pickled with the module.
            setattr(norm, "train", partial(_stay_in_evaluation_mode, norm))  # noqa: B010
    return net


def convert_batch_norm(net: nn.Module) -> nn.Module:
    """Replace every batch norm of a network by a group norm with the same scale and shift, and return the network.

    Group norm takes its statistics from one example, so that examples do not influence each other. It is another
    function than batch norm: use it for networks that are trained from the start. Its groups have 16 channels, or as
    many as divide the number of channels. Classes derived from PyTorch's batch norms are left as they are.

    Args:
        net: the network, which is changed in place, unless it is a batch norm itself.
    """
    if isinstance(net, _BatchNorm) and type(net) in _CONVERTED:
        return _as_group_norm(net)
    converted: dict[nn.Module, nn.Module] = {}  # a norm that is used twice stays one
    for module in [*net.modules()]:
        for name, child in module._modules.items():  # with both names of a module that has two
            if isinstance(child, _BatchNorm) and type(child) in _CONVERTED:
                module._modules[name] = converted.setdefault(child, _as_group_norm(child))
    return net


def _as_group_norm(norm: _BatchNorm) -> nn.GroupNorm:
    channels = norm.num_features
    groups = gcd(channels, max(channels // _CHANNELS_PER_GROUP, 1))
    made = nn.GroupNorm(groups, channels, norm.eps, norm.affine)
    made.weight, made.bias = norm.weight, norm.bias  # the same parameters, either of which may be missing
    return made


def _stay_in_evaluation_mode(module: M, mode: bool = True) -> M:
    """Take the place of `nn.Module.train`."""
    return module
