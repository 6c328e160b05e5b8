"""Parameters that no curvature rule is for, which can be left out of the evidence as constants."""

import warnings
from collections.abc import Collection

import torch
from torch import Tensor, nn

from lila.curvature.audit.gradients import parameters_used_otherwise
from lila.curvature.audit.subject import Subject
from lila.curvature.finding import find_layers, parameters_without_rule

_ENOUGH = 2  # inputs


def freeze_unknown(net: nn.Module, x: Tensor) -> list[str]:
    """Freeze the parameters of a network that no curvature rule is for, with a warning that names them.

    They keep their values from then on (`requires_grad` is False), and the evidence takes them for constants.

    Args:
        net: the network, which is changed in place.
        x: a few inputs, on which it is run to see how it uses its parameters.

    Returns:
        The names of the parameters that were frozen.
    """
    names = unknown_parameters(net, x)
    if names:
        warn_of_unknown(names, "they are frozen and keep their values")
        for name in names:
            net.get_parameter(name).requires_grad_(False)
    return names


def unknown_parameters(net: nn.Module, x: Tensor, known: Collection[str] = ()) -> list[str]:
    """Return the names of the trainable parameters that no curvature rule is for.

    Args:
        net: the network.
        x: a few inputs.
        known: names of parameters that are left out already.
    """
    found = [name for name in parameters_without_rule(net) if name not in known]
    layers = find_layers(net, {*known, *found})
    with torch.enable_grad():
        subject = Subject.of(net, layers, x[:_ENOUGH].detach())
        return [*found, *parameters_used_otherwise(subject)]


def warn_of_unknown(names: list[str], consequence: str) -> None:
    """Warn of parameters that no curvature rule is for, and of what follows from it."""
    warnings.warn(
        f"There is no curvature rule for the parameters {names}, so {consequence}.",
        UserWarning,
        stacklevel=3,
    )
