"""Networks that are plain sequences of layers."""

from math import prod

from torch import nn

from lila.errors import ArgumentError

Shape = tuple[int, ...]


def image_shape(name: str, shape: Shape) -> tuple[int, int, int]:
    """Return the (channels, height, width) of an image; raise ArgumentError if a network gets other inputs."""
    if len(shape) != 3:
        raise ArgumentError(
            f"{name} takes images of shape (channels, height, width), but these inputs have shape {shape}. For time "
            "series take cnn1d or mlp."
        )
    channels, height, width = shape
    return channels, height, width


def mlp(shape: Shape, outputs: int, width: int = 1000) -> nn.Sequential:
    """The paper's MLP: one hidden layer of 1000 tanh units."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), width), nn.Tanh(), nn.Linear(width, outputs))


def cnn(shape: Shape, outputs: int) -> nn.Sequential:
    """The paper's CNN: 3 x 3 convolutions to 16, 32 and 64 channels, stride 1, padding 1; 256 hidden units; ReLU.

    Between convolutions the paper names no pooling. Without any, the hidden layer of a 28 x 28 image has 50,176 inputs,
    a Kronecker factor of that side (10 GB) and 13 million weights. We halve the image after each convolution.
    """
    channels, height, width = image_shape("cnn", shape)
    layers: list[nn.Module] = []
    for made in (16, 32, 64):
        layers += [nn.Conv2d(channels, made, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
        channels, height, width = made, -(-height // 2), -(-width // 2)
    layers += [nn.Flatten(), nn.Linear(channels * height * width, 256), nn.ReLU(), nn.Linear(256, outputs)]
    return nn.Sequential(*layers)


def lenet(shape: Shape, outputs: int) -> nn.Sequential:
    """What the published results call CNN: convolutions 6@5x5, 16@3x3 (5x5 for larger images) and 120@5x5, 84 units.

    Max pooling follows the first two convolutions, tanh is the activation. After the third a 28 x 28 or 32 x 32 image
    is a single pixel; of other sizes whatever is left is flattened.
    """
    channels, height, width = image_shape("lenet", shape)
    middle = 3 if min(height, width) < 32 else 5
    sides = [((side - 4) // 2 - middle + 1) // 2 - 4 for side in (height, width)]
    if min(sides) < 1:
        raise ArgumentError(f"lenet needs images of at least 28 x 28 pixels, but these are {height} x {width}.")
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, middle),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 120, 5),
        nn.Flatten(),
        nn.Tanh(),
        nn.Linear(120 * sides[0] * sides[1], 84),
        nn.Tanh(),
        nn.Linear(84, outputs),
    )
