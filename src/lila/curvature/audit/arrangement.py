"""The check that a rule arranges weights, inputs and output gradients in the shapes that it promises.

A rule that is wrong here mostly makes nonsense of the checks that follow, or errors that name no layer.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lila.curvature.audit.subject import Subject
from lila.curvature.layers import Layer
from lila.errors import ModelError


def check_arrangement(subject: Subject) -> None:
    """Raise ModelError if a rule's blocks, inputs or output gradients are not of the shape that it promises."""
    for layer in subject.layers:
        _check_block(layer)
    hooks = [layer.module.register_forward_hook(_checked(layer)) for layer in subject.layers]
    try:
        with torch.no_grad():
            subject.run(subject.views)
    finally:
        for hook in hooks:
            hook.remove()


def _check_block(layer: Layer) -> None:
    """Check that `to_block` arranges a weight as (r, o, d), and that `from_block` is its inverse."""
    if layer.weight is None:
        return
    rule, shape = layer.rule, layer.rule.shape(layer.module)
    weight = getattr(layer.module, str(rule.weight))
    numbered = torch.arange(weight.numel(), dtype=torch.float64, device=weight.device).reshape(weight.shape)
    block = _called(layer, "to_block", rule.to_block, numbered)
    if tuple(block.shape) != tuple(shape):
        raise _error(layer, f"`to_block` returns shape {tuple(block.shape)}, but `shape` is {tuple(shape)}")
    returned = _called(layer, "from_block", rule.from_block, block)
    if not torch.equal(returned, numbered) or not torch.equal(block.flatten().sort().values, numbered.flatten()):
        raise _error(layer, "`from_block` does not undo `to_block`, or `to_block` does more than to rearrange entries")


def _checked(layer: Layer) -> Callable[..., None]:
    """Return a forward hook that checks the inputs and outputs of a layer."""
    groups, outputs, inputs = layer.rule.shape(layer.module)

    def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not len(output):
            return
        g = _called(layer, "outputs", layer.rule.outputs, output)
        if g.dim() != 4 or g.shape[2:] != (groups, outputs):
            raise _error(layer, f"`outputs` returns shape {tuple(g.shape)}, but (v, t, {groups}, {outputs}) is needed")
        if layer.weight is None:
            return
        a = _called(layer, "inputs", layer.rule.inputs, _called(layer, "features", layer.rule.features, args[0]))
        if a.dim() != 4 or a.shape[2:] != (groups, inputs):
            raise _error(layer, f"`inputs` returns shape {tuple(a.shape)}, but (v, t, {groups}, {inputs}) is needed")

    return hook


def _called(layer: Layer, name: str, method: Callable[[nn.Module, Tensor], Tensor], value: Tensor) -> Tensor:
    try:
        return method(layer.module, value)
    except (RuntimeError, IndexError) as error:
        raise _error(layer, f"`{name}` fails for a tensor of shape {tuple(value.shape)}: {error}") from error


def _error(layer: Layer, problem: str) -> ModelError:
    return ModelError(
        f"The curvature rule {type(layer.rule).__name__} of {layer.name!r} ({type(layer.module).__name__}) is wrong: "
        f"{problem}."
    )
