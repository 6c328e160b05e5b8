"""Which layer runs last."""

from collections.abc import Callable, Collection

import torch
from torch import Tensor, nn

from lila.curvature.finding import find_layers
from lila.curvature.layers import Layer
from lila.errors import ModelError

_EXAMPLES = 2


def check_runs_last(net: nn.Module, layer: Layer, x: Tensor, left_out: Collection[str] = ()) -> None:
    """Raise ModelError if another layer with trainable weights runs after this one.

    Args:
        net: the network.
        layer: the layer.
        x: inputs, of which a few are used.
        left_out: names of parameters that are taken for constants.
    """
    ran: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: ran.append(name)

    hooks = [other.module.register_forward_hook(note(other.name)) for other in find_layers(net, left_out)]
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
