"""The rules by layer type: those of the library, and those that users register."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from lila._util.choices import check_instance
from lila.curvature.rules.base import Rule
from lila.curvature.rules.elementwise import BiasRule, PReLURule, ScaleRule
from lila.curvature.rules.linear import ConvRule, LinearRule, TransposedConvRule
from lila.curvature.rules.norms import BatchNormRule, GroupNormRule, InstanceNormRule, LayerNormRule
from lila.errors import ArgumentError
from lila.model.fixup import Bias, Scale

_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: LinearRule(),
    nn.Conv1d: ConvRule(),
    nn.Conv2d: ConvRule(),
    nn.Conv3d: ConvRule(),
    nn.ConvTranspose2d: TransposedConvRule(),
    nn.LayerNorm: LayerNormRule(),
    nn.GroupNorm: GroupNormRule(),
    nn.BatchNorm1d: BatchNormRule(),
    nn.BatchNorm2d: BatchNormRule(),
    nn.BatchNorm3d: BatchNormRule(),
    nn.SyncBatchNorm: BatchNormRule(),
    nn.InstanceNorm1d: InstanceNormRule(),
    nn.InstanceNorm2d: InstanceNormRule(),
    nn.InstanceNorm3d: InstanceNormRule(),
    nn.PReLU: PReLURule(),
    Scale: ScaleRule(),
    Bias: BiasRule(),
}


_NORMALISATIONS = (nn.LayerNorm, nn.GroupNorm, _BatchNorm, _InstanceNorm)
"""Layers of which libraries make variants, in another memory layout or with an activation."""


def register_rule(layer: type[nn.Module], rule: Rule) -> None:
    """Register how the curvature of a layer type, and of its subclasses, is computed.

    Every estimate of the evidence first checks on a few views that the rule reproduces the gradients that autograd
    gives, and that its inputs and outputs are linear. A rule that is wrong for these views is an error.

    Args:
        layer: the layer type.
        rule: its rule, which replaces an earlier one.
    """
    if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        raise ArgumentError(f"The layer type of a rule must be a subclass of torch.nn.Module, but is {layer!r}.")
    check_instance(rule, Rule, f"The rule of {layer.__name__}")
    _RULES[layer] = rule


def rule_for(module: nn.Module) -> Rule | None:
    """Return the rule of the layer's type, or of the nearest parent type that has one; None if there is none.

    A normalisation whose class has a forward of its own may normalise other dimensions than its parent, or do more. It
    has no rule, so that its scale and shift are found where they are used (`lila.curvature.raw_parameters`).
    """
    parent = next((parent for parent in type(module).__mro__ if parent in _RULES), None)
    if parent is None or (issubclass(parent, _NORMALISATIONS) and type(module).forward is not parent.forward):
        return None
    return _RULES[parent]


def known_layers() -> list[str]:
    """Return the names of the layer types that have a rule."""
    return [layer.__name__ for layer in _RULES]
