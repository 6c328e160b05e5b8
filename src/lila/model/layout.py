"""Speed-up: images lie in memory channels last, in which convolutions and pooling are faster on a CPU.

The layout changes no value. But a network that takes pixels apart by `Tensor.view` does not accept it, so whether a
network accepts it is found out once, by running it on one image.
"""

import torch
from torch import Tensor, nn


def channels_last(images: Tensor) -> Tensor:
    """Return the same images (n, c, h, w), laid out channels last.

    PyTorch infers the layout from the strides, and the stride of a single channel could be any number. As
    `Tensor.contiguous` leaves that stride alone, the tensor is made anew here.
    """
    width, channels = images.shape[3], images.shape[1]
    rows = images.permute(0, 2, 3, 1).flatten(2)
    return rows.unflatten(2, (width, channels)).permute(0, 3, 1, 2)


@torch.no_grad()
def gains_from_channels_last(net: nn.Module, image: Tensor) -> bool:
    """Return whether a network has convolutions, would run them on a CPU, and accepts an image laid out channels last.

    Args:
        net: the network.
        image: one of its inputs, shape (1, *shape).
    """
    convolves = any(isinstance(module, nn.Conv2d) for module in net.modules())
    if not convolves or image.dim() != 4 or not len(image) or image.device.type != "cpu":
        return False
    try:
        net(channels_last(image))
    except Exception:  # whatever the reason: if the plain layout fails too, that run will tell the user why
        return False
    return True
