"""Run a network such that all its layers are called as modules, also those inside other modules."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lila.curvature.inside.attention import exposed_attention
from lila.curvature.inside.raw_parameters import FollowParameters, ParameterCopies
from lila.curvature.layers import Layer


@contextmanager
def exposed(net: nn.Module, layers: Sequence[Layer], weights: Mapping[str, Tensor], views: Tensor) -> Iterator[None]:
    """Let the network call the stand-ins among its layers, within the block.

    Attention is computed without fused kernels, which have no second derivative.

    Args:
        net: the network.
        layers: its layers.
        weights: its parameters by name, as it sees them in this run.
        views: its inputs in this run.
    """
    modules = [layer.module for layer in layers]
    copies = {layer.name: layer.module for layer in layers if isinstance(layer.module, ParameterCopies)}
    following = FollowParameters(copies, weights, views) if copies else nullcontext()
    with exposed_attention(net, modules), sdpa_kernel(SDPBackend.MATH), following:
        yield
