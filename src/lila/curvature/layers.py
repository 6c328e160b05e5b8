"""A layer of a network whose weights the curvature is over, and where each weight sits in its block."""

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from math import prod

import torch
from torch import Tensor, nn

from lila.curvature.inside.raw_parameters import PARAMETER_RULE, ParameterCopies
from lila.curvature.inside.stand_in import StandIn
from lila.curvature.rules import Rule


@dataclass(frozen=True)
class Layer:
    """A module with at least one trainable weight, and its rule.

    Its weights form one block W of shape (r, o, d): the multiplying weight first, the bias as last input. A frozen
    parameter is a constant, and its part of the block is left out.

    Attributes:
        name: its name in the network; the name of the parameter if it is a parameter that belongs to no layer.
        module: the module, or the stand-in for a use of weights inside a module.
        rule: the rule of its type.
        weight: the full name of the multiplying weight, None if it is missing or frozen.
        bias: the full name of the bias, None if it is missing or frozen.
        owner: the name of the module of the network that owns the weights.
    """

    name: str
    module: nn.Module
    rule: Rule
    weight: str | None
    _: KW_ONLY
    bias: str | None
    owner: str

    @classmethod
    def of(
        cls,
        name: str,
        module: nn.Module,
        rule: Rule,
        trainable: Collection[str],
        names: Mapping[str, str] | None = None,
    ) -> "Layer":
        """Return the layer made of some parameters of a module.

        Args:
            name: the name of the module in the network.
            module: the module, or a stand-in for it.
            rule: its rule.
            trainable: the names, in the module of the network, of the parameters that are no constants.
            names: what the module of the network calls the parameters of a stand-in, by their names in the stand-in.
        """

        def in_network(own: str | None) -> str | None:
            in_module = (names or {}).get(own, own) if own else None
            return full_name(name, in_module) if in_module in trainable and in_module else None

        return cls(name, module, rule, in_network(rule.weight), bias=in_network(rule.bias), owner=name)

    @classmethod
    def of_parameter(cls, owner: str, module: nn.Module, own: str) -> "Layer":
        """Return the layer of a parameter that its module adds to, or multiplies with, activations."""
        name = full_name(owner, own)
        return cls(name, ParameterCopies(module, own), PARAMETER_RULE, None, bias=name, owner=owner)

    def moved_to(self, net: nn.Module) -> "Layer":
        """Return the same layer of another network of the same architecture, such as a copy."""
        owner = net.get_submodule(self.owner)
        return replace(self, module=self.module.for_owner(owner) if isinstance(self.module, StandIn) else owner)

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter that belongs to no layer."""
        return isinstance(self.module, ParameterCopies)

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


def full_name(prefix: str, own: str) -> str:
    """Return the name, in the network, of a parameter of the module with this prefix."""
    return f"{prefix}.{own}" if prefix else own
