"""Networks for time series."""

from torch import nn

from lila.errors import ArgumentError


def cnn1d(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    """Convolutions of width 5 to 16, 32 and 32 channels in time, each followed by ReLU and pooling; 64 hidden units."""
    if len(shape) != 2:
        raise ArgumentError(f"cnn1d takes time series of shape (channels, time), but these inputs have shape {shape}.")
    channels, time = shape
    layers: list[nn.Module] = []
    for made in (16, 32, 32):
        layers += [nn.Conv1d(channels, made, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2, ceil_mode=True)]
        channels, time = made, -(-time // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * time, 64), nn.ReLU(), nn.Linear(64, outputs))
