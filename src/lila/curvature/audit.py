"""A check on a few views that what the layers' rules give is what autograd gives.

For one view of one example and one output direction, the gradient of each weight must be sum_t g a' over the positions
that belong to that view. This finds weights that are used outside their layer's forward, layers whose class overrides
forward, wrong rules, networks whose layers do not run batch first, networks that mix examples, and networks that draw
random numbers.
"""

import torch
from torch import Tensor

from lila.augment.compose import Compose
from lila.curvature.layers import Layer
from lila.curvature.recording import record
from lila.curvature.structure import jacobian
from lila.curvature.tape import Samples
from lila.errors import ModelError
from lila.invariant import InvariantModel

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


def _autograd(model: InvariantModel, views: Tensor, column: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The network's outputs, and the gradient of <column, outputs> in each trainable weight."""
    weights = {name: p for name, p in model.net.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        outputs = model.net(views.clone())
        grads = torch.autograd.grad(outputs, list(weights.values()), column, materialize_grads=True)
    return outputs.detach(), dict(zip(weights, grads, strict=True))
