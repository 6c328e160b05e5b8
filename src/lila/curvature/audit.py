"""A check on a few views that what the layers' rules give is what autograd gives.

For one view of one example and one output direction, the gradient of each weight must be sum_t g a' over the positions
that belong to that view. This finds weights that are used outside their layer's forward, layers whose class overrides
forward, wrong rules, networks whose layers do not run batch first, networks that mix examples, and networks that draw
random numbers. And the a and g of several views taken together must be the averages of those of each, which finds rules
that are not linear.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lila.augment.base import Augmentation
from lila.augment.compose import Compose
from lila.curvature.autograd.recording import record
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.layers import Layer, find_layers
from lila.curvature.structure import jacobian
from lila.errors import ModelError
from lila.model.invariant import InvariantModel

_EXAMPLES, _SAMPLES = 2, 2  # enough to tell examples, and views of one example, from each other
_TOLERANCE = 1e-2  # of the gradient's norm: a wrong rule is off by much more


def audit(model: InvariantModel, layers: tuple[Layer, ...], x: Tensor, noise: Tensor) -> None:
    """Raise ModelError if the layers do not account for the gradient of every trainable weight.

    Args:
        model: the invariant network.
        layers: its layers.
        x: inputs of a batch, of which a few are used.
        noise: their noise.
    """
    views = model.views(x[:_EXAMPLES], noise[:_EXAMPLES, :_SAMPLES]).detach()
    plain = InvariantModel(model.net, Compose(), samples=1)
    tape = record(plain, layers, views, views.new_zeros(len(views), 1, 0), Samples.AVERAGED, differentiable=False)
    column = torch.zeros_like(tape.outputs)
    column[0] = torch.linspace(1, 2, column.shape[1])

    outputs, expected = _autograd(model, views, column)
    if (outputs - tape.outputs.detach()).abs().max() > _TOLERANCE * outputs.abs().max():
        raise ModelError(
            "Two runs of the network on the same inputs gave different outputs, so the likelihood is not a function of "
            "the weights. Switch off what draws random numbers inside the network (torch.nn.functional.dropout, say)."
        )
    wrong = []
    largest = max(gradient.norm() for gradient in expected.values())
    for layer, g, a in zip(layers, tape.pull(column), tape.inputs(), strict=True):
        found = layer.split(jacobian(g[:1], a[:1])[0])
        # A sum that vanishes leaves rounding errors; a rule may have done part of the sum already.
        uncancelled = layer.split(jacobian(g[:1].abs(), a[:1].abs())[0])
        for name, gradient in expected.items():
            if name in found:
                eps = torch.finfo(gradient.dtype).eps
                rounding = eps**0.5 * uncancelled[name].norm() + eps**0.75 * largest
                if (found[name] - gradient).norm() > _TOLERANCE * gradient.norm() + rounding:
                    wrong.append(name)
    if wrong:
        raise ModelError(
            f"The gradients of {wrong} are not explained by the inputs and outputs of the layers that own them. Either "
            "the weights are also used outside their layer's forward (tied, or through torch.nn.functional), or the "
            "layer's class or a registered rule does something else than its name says, or the network mixes the "
            "examples of a batch or does not keep the batch in the first dimension. Use each weight through its own "
            "layer, or register a rule for it with lila.register_rule."
        )
    crooked = _not_linear(model.net, layers, views, tape)
    if crooked:
        raise ModelError(
            f"The rules of the layers {crooked} are not linear: what they give for the average of several inputs or "
            "gradients is not the average of what they give for each. In a rule of your own, whatever is not linear in "
            "the layer's input belongs into `features`, which is averaged afterwards."
        )


def check_runs_last(net: nn.Module, layer: Layer, x: Tensor) -> None:
    """Raise ModelError if another layer with trainable weights runs after this one."""
    ran: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: ran.append(name)

    hooks = [other.module.register_forward_hook(note(other.name)) for other in find_layers(net)]
    try:
        with torch.no_grad():
            net(x[:_EXAMPLES])
    finally:
        for hook in hooks:
            hook.remove()
    if ran and ran[-1] != layer.name:
        raise ModelError(
            f"The layer that the network names last is {layer.name!r}, but {ran[-1]!r} runs after it: it is not clear "
            "which one layers='last' is to mean. Let the network make its last layer last, in __init__."
        )


class _AsSamples(Augmentation):
    """What it is given are the samples of an example already: (1, v, *shape)."""

    noise_dim = 0

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x

    def view_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[1:]


def _not_linear(net: nn.Module, layers: tuple[Layer, ...], views: Tensor, apart: Tape) -> list[str]:
    """Names of the layers whose a and g of all views together are not the averages of those of each view."""
    model, noise = InvariantModel(net, _AsSamples(), len(views)), views.new_zeros(1, len(views), 0)
    together = record(model, layers, views.unsqueeze(0), noise, Samples.AVERAGED, differentiable=False)
    column = torch.linspace(1, 2, apart.outputs.shape[1]).to(views)
    inputs = zip(together.inputs(), apart.inputs(), strict=True)
    outputs = zip(together.pull(column[None]), apart.pull(column.expand_as(apart.outputs)), strict=True)
    differing = [_differ([(one[0], each) for one, each in pairs]) for pairs in (inputs, outputs)]
    return [layer.name for layer, *either in zip(layers, *differing, strict=True) if any(either)]


def _differ(pairs: list[tuple[Tensor, Tensor]]) -> list[bool]:
    """Of each pair, whether the first is not the average of the second; where that cancels, rounding is left."""
    sizes = [each.abs().mean(0).norm() for _, each in pairs]
    rounding = torch.finfo(sizes[0].dtype).eps ** 0.5 * max(sizes)
    return [
        bool((one - each.mean(0)).norm() > _TOLERANCE * size + rounding)
        for (one, each), size in zip(pairs, sizes, strict=True)
    ]


def _autograd(model: InvariantModel, views: Tensor, column: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The network's outputs, and the gradient of <column, outputs> in each trainable weight."""
    weights = {name: p for name, p in model.net.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        outputs = model.net(views.clone())
        grads = torch.autograd.grad(outputs, list(weights.values()), column, materialize_grads=True)
    return outputs.detach(), dict(zip(weights, grads, strict=True))
