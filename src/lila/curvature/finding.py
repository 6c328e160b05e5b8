"""Find the layers of a network, and refuse networks for which the curvature is not defined."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from enum import StrEnum

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from lila.curvature.inside.attention import IN_PROJECTION_RULE, STACKED, in_projections, is_attention
from lila.curvature.layers import Layer, full_name
from lila.curvature.rules import known_layers, rule_for
from lila.errors import ModelError

_PARAMETER_CONTAINERS = (nn.ParameterList, nn.ParameterDict)


class UnknownName(StrEnum):
    """What to do with parameters that have no curvature rule."""

    REFUSE = "refuse"
    """Raise an error that names them."""
    FREEZE = "freeze"
    """Leave them out, as constants, and warn of it."""


def find_layers(net: nn.Module, left_out: Collection[str] = ()) -> tuple[Layer, ...]:
    """Return the layers with trainable weights, in the network's order; raise where the curvature is not defined.

    A module of the user's own without a rule may have parameters that it adds to activations, multiplies them with or
    concatenates to them. Each of these is a layer. Whether it is used in such a way shows when the network runs.

    Args:
        net: the network.
        left_out: names of parameters that are taken for constants.
    """
    check_examples_apart(net)
    _check_not_tied(net, left_out)
    layers: list[Layer] = []
    for name, module in net.named_modules():
        trainable = _trainable(name, module, left_out)
        refused = _without_rule(module, trainable)
        if refused:
            raise ModelError(no_rule_message(name, module, refused))
        if trainable:
            layers += _layers_of(name, module, trainable)
    if not layers:
        raise ModelError("The network has no trainable parameters, so there is no evidence to compute.")
    return tuple(layers)


def parameters_without_rule(net: nn.Module) -> list[str]:
    """Return the names of the trainable parameters that no rule can be for, whatever their modules do with them.

    They are weights shared by two modules, and parameters of layers of `torch.nn` that have no rule.
    """
    tied = [name for pair in _tied(net) for name in pair]
    found = [
        full_name(name, own)
        for name, module in net.named_modules()
        for own in _without_rule(module, _trainable(name, module, ()))
    ]
    return list(dict.fromkeys([*tied, *found]))


def _trainable(name: str, module: nn.Module, left_out: Collection[str]) -> list[str]:
    """Return the names, in their module, of the trainable parameters that it owns itself."""
    owned = module.named_parameters(recurse=False)
    return [own for own, p in owned if p.requires_grad and full_name(name, own) not in left_out]


def _without_rule(module: nn.Module, trainable: list[str]) -> list[str]:
    """Return those parameters of a layer of `torch.nn` that no rule is for."""
    if not type(module).__module__.startswith("torch.nn") or isinstance(module, _PARAMETER_CONTAINERS):
        return []
    rule = rule_for(module)
    if rule is None and is_attention(module):
        return []
    return [own for own in trainable if rule is None or own not in (rule.weight, rule.bias)]


def _layers_of(name: str, module: nn.Module, trainable: list[str]) -> list[Layer]:
    """Return the layers of the parameters that a module owns itself."""
    rule = rule_for(module)
    if rule is None and is_attention(module):
        return _layers_of_attention(name, module, trainable)
    known = [own for own in trainable if rule is not None and own in (rule.weight, rule.bias)]
    of_rule = [Layer.of(name, module, rule, trainable=known)] if rule is not None and known else []
    return [*of_rule, *(Layer.of_parameter(name, module, own) for own in trainable if own not in known)]


def _layers_of_attention(name: str, module: nn.Module, trainable: list[str]) -> list[Layer]:
    """Return the layers of an attention module's own parameters: projections, and what belongs to none of these."""
    layers = []
    for projection, names in in_projections(module, trainable):
        layer = Layer.of(name, projection, IN_PROJECTION_RULE, trainable=trainable, names=names)
        layers.append(layer if projection.own == STACKED else replace(layer, name=str(layer.weight)))
    known = {parameter for layer in layers for parameter in layer.parameter_names}
    return [*layers, *(Layer.of_parameter(name, module, own) for own in trainable if full_name(name, own) not in known)]


def check_examples_apart(net: nn.Module) -> None:
    """Raise if the network holds a module that leaves examples without a likelihood of their own."""
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            remedy = "Keep its statistics with lila.freeze_statistics(net), or use group norm in its place"
            if module.running_mean is None:
                remedy = "It keeps no statistics that could take their place, so use group norm instead"
            raise ModelError(
                f"{name!r} is a {type(module).__name__} that normalises by the statistics of the batch. So the "
                "examples of a batch influence each other, there is no likelihood of a single example, and the "
                f"evidence is not defined. {remedy} (lila.convert_batch_norm(net))."
            )
        if isinstance(module, _InstanceNorm) and module.track_running_stats and module.training:
            raise ModelError(
                f"{name!r} is a {type(module).__name__} that keeps running statistics, which every pass would change. "
                "Make it with track_running_stats=False, or keep its statistics with lila.freeze_statistics(net)."
            )
        if isinstance(module, _DropoutNd) and module.training and module.p > 0:
            raise ModelError(
                f"{name!r} is a {type(module).__name__} in training mode. Its random masks differ from pass to pass, "
                "so the likelihood is not a function of the weights. Set p = 0 or switch it off with eval(); the prior "
                "regularises in its place."
            )


def _check_not_tied(net: nn.Module, left_out: Collection[str]) -> None:
    for first, name in _tied(net):
        if first not in left_out:
            raise ModelError(
                f"The parameter {first!r} is used again as {name!r}. There is no curvature rule for a weight shared by "
                "two modules. Use the same module twice instead, or give each its own weight."
            )


def _tied(net: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the two names of each trainable parameter that two modules share."""
    owners: dict[int, str] = {}
    for name, parameter in _all_names(net):
        first = owners.setdefault(id(parameter), name)
        if first != name and parameter.requires_grad:
            yield first, name


def _all_names(net: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for prefix, module in net.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            yield full_name(prefix, own), parameter


def no_rule_message(name: str, module: nn.Module, parameters: list[str], used_by: str = "") -> str:
    """Return the message that refuses parameters of a module.

    Args:
        name: the name of the module in the network.
        module: the module.
        parameters: the names of its parameters.
        used_by: the operations that use them, if they are known.
    """
    where = f"{name!r} ({type(module).__name__})" if name else f"the network itself ({type(module).__name__})"
    used = f", which are used by {used_by}" if used_by else ""
    return (
        f"There is no curvature rule for the parameters {parameters} of {where}{used}. Layers with a rule: "
        f"{', '.join(known_layers())}, MultiheadAttention; parameters outside of these may be added to activations, "
        "multiplied with them or concatenated to them, where the batch is the first dimension. Build the module from "
        "these, freeze the parameters (requires_grad_(False), or unknown='freeze') to treat them as constants, or give "
        "a rule of your own with lila.register_rule."
    )
