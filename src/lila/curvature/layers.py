"""The layers of a network whose weights the curvature is over, and where each weight sits in its block."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from lila.curvature.rules import Rule, known_layers, rule_for
from lila.errors import ModelError


@dataclass(frozen=True)
class Layer:
    """A module with at least one trainable weight, and its rule.

    Its weights form one block W of shape (r, o, d): the multiplying weight first, the bias as last input. A frozen
    parameter is a constant, and its part of the block is left out.

    Attributes:
        name: its name in the network.
        module: the module.
        rule: the rule of its type.
        weight: the full name of the multiplying weight, None if it is missing or frozen.
        bias: the full name of the bias, None if it is missing or frozen.
    """

    name: str
    module: nn.Module
    rule: Rule
    weight: str | None
    _: KW_ONLY
    bias: str | None

    @classmethod
    def of(cls, name: str, module: nn.Module, rule: Rule) -> "Layer":
        """Return the layer made of those parameters of a module that are trainable now."""

        def trainable(own: str | None) -> str | None:
            parameter = getattr(module, own, None) if own else None
            if own is None or parameter is None or not parameter.requires_grad:
                return None
            return f"{name}.{own}" if name else own

        return cls(name, module, rule, trainable(rule.weight), bias=trainable(rule.bias))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Full names of the trainable parameters."""
        return tuple(name for name in (self.weight, self.bias) if name is not None)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(r, o, d) of the block of trainable weights."""
        groups, outputs, inputs = self.rule.shape(self.module)
        return groups, outputs, inputs * (self.weight is not None) + (self.bias is not None)

    @property
    def size(self) -> int:
        """Number of trainable weights."""
        return prod(self.shape)

    def inputs(self, x: Tensor) -> Tensor:
        """Return the inputs a of the block, shape (v, t, r, d), from the rule's features."""
        a = self.rule.inputs(self.module, x)
        if self.weight is None:
            a = a[..., :0]
        if self.bias is not None:
            a = with_one(a)
        return a

    def join(self, values: Mapping[str, Tensor]) -> Tensor:
        """Arrange one value per weight as a block (r, o, d).

        Args:
            values: tensors by parameter name, each in the parameter's shape or a scalar that holds for all entries.
        """
        groups, outputs, inputs = self.rule.shape(self.module)
        parts = []
        if self.weight is not None:
            value = values[self.weight]
            block = value.expand(groups, outputs, inputs) if not value.dim() else self.rule.to_block(self.module, value)
            parts.append(block)
        if self.bias is not None:
            value = values[self.bias]
            shape = (groups, outputs, 1)
            parts.append(value.reshape(shape) if value.dim() else value.expand(shape))
        return torch.cat(parts, dim=-1)

    def split(self, block: Tensor) -> dict[str, Tensor]:
        """Return a block (r, o, d) as one tensor per parameter, in the parameter's shape: the inverse of `join`."""
        width = self.rule.shape(self.module)[2] if self.weight is not None else 0
        found = {}
        if self.weight is not None:
            found[self.weight] = self.rule.from_block(self.module, block[..., :width])
        if self.bias is not None:
            found[self.bias] = block[..., width:].reshape(getattr(self.module, str(self.rule.bias)).shape)
        return found


def with_one(a: Tensor) -> Tensor:
    """Append a constant 1 to inputs, (v, t, r, d) to (v, t, r, d + 1), in the order in which they lie in memory."""
    if a.is_contiguous():
        return torch.cat([a, a.new_ones(*a.shape[:-1], 1)], dim=-1)
    columns = a.permute(0, 2, 3, 1)  # (v, r, d, t), as unfolding leaves them
    ones = columns.new_ones(*columns.shape[:2], 1, columns.shape[3])
    return torch.cat([columns, ones], dim=2).permute(0, 3, 1, 2)


def find_layers(net: nn.Module) -> tuple[Layer, ...]:
    """Return the layers with trainable weights, in the network's order; raise where the curvature is not defined."""
    check_examples_apart(net)
    _check_not_tied(net)
    layers = []
    for name, module in net.named_modules():
        trainable = [own for own, p in module.named_parameters(recurse=False) if p.requires_grad]
        if not trainable:
            continue
        rule = rule_for(module)
        if rule is None or not set(trainable) <= {rule.weight, rule.bias}:
            raise ModelError(_no_rule_message(name, module, trainable))
        layers.append(Layer.of(name, module, rule))
    if not layers:
        raise ModelError("The network has no trainable parameters, so there is no evidence to compute.")
    return tuple(layers)


def check_examples_apart(net: nn.Module) -> None:
    """Raise if the network holds a module that leaves examples without a likelihood of their own."""
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm):
            raise ModelError(
                f"{name!r} is a {type(module).__name__}. Batch norm lets the examples of a batch influence each other, "
                "so there is no likelihood of a single example, and the evidence is not defined. Use nn.GroupNorm or "
                "nn.LayerNorm, or no normalisation with Fixup initialisation (lila.model.fixup.Scale and Bias)."
                + _frozen_batch_norm(module)
            )
        if isinstance(module, _InstanceNorm) and module.track_running_stats and module.training:
            raise ModelError(
                f"{name!r} is a {type(module).__name__} that keeps running statistics, which every pass would change. "
                "Make it with track_running_stats=False."
            )
        if isinstance(module, _DropoutNd) and module.training and module.p > 0:
            raise ModelError(
                f"{name!r} is a {type(module).__name__} in training mode. Its random masks differ from pass to pass, "
                "so the likelihood is not a function of the weights. Set p = 0 or switch it off with eval(); the prior "
                "regularises in its place."
            )


def _frozen_batch_norm(module: _BatchNorm) -> str:
    """Return what to add to the refusal of batch norm for a module in evaluation mode, which mixes no examples."""
    if module.training or module.running_mean is None:
        return ""
    return (
        " In eval() mode, as here, it is a constant scale and shift of each channel, but lila has no curvature rule "
        "for it: fold it into the layer before it (torch.nn.utils.fusion.fuse_conv_bn_eval, fuse_linear_bn_eval)."
    )


def _check_not_tied(net: nn.Module) -> None:
    owners: dict[int, str] = {}
    for name, parameter in _all_names(net):
        first = owners.setdefault(id(parameter), name)
        if first != name and parameter.requires_grad:
            raise ModelError(
                f"The parameter {first!r} is used again as {name!r}. There is no curvature rule for a weight shared by "
                "two modules. Use the same module twice instead, or give each its own weight."
            )


def _all_names(net: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for prefix, module in net.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            yield f"{prefix}.{own}" if prefix else own, parameter


def _no_rule_message(name: str, module: nn.Module, trainable: list[str]) -> str:
    where = f"{name!r} ({type(module).__name__})" if name else f"the network itself ({type(module).__name__})"
    return (
        f"There is no curvature rule for the parameters {trainable} of {where}. Layers with a rule: "
        f"{', '.join(known_layers())}. Build the module from these, freeze the parameters (requires_grad_(False)) to "
        "treat them as constants, or give a rule of your own with lila.register_rule."
    )
