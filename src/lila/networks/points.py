"""Networks for sets of points."""

from torch import nn

from lila.errors import ArgumentError


def pointnet(shape: tuple[int, ...], outputs: int, width: int = 64) -> nn.Sequential:
    """Two layers of 64 tanh units for each point by itself, the mean over the points, and 64 hidden units.

    The order of the points does not matter (Qi et al., "PointNet", 2017, with a mean in place of the maximum).
    """
    if len(shape) != 2:
        raise ArgumentError(f"pointnet takes sets of shape (points, coordinates), but these inputs have shape {shape}.")
    return nn.Sequential(
        nn.Linear(shape[1], width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d((1, None)),  # the mean over the points of (batch, points, width)
        nn.Flatten(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Linear(width, outputs),
    )
