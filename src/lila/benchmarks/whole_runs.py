"""The cost of a whole run of `lila.fit`, in runs of the same network with one randomly transformed view per image.

The images are made up: ten smooth patterns, one per class, rotated at random and covered with noise. A network learns
to tell them apart about as soon as real images, so that hyper-steps begin as early. Nothing is reported unless the
rotation is found to be the transformation of the images.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lila.augment import Affine2d
from lila.errors import NumericalError
from lila.laplace.running import RunningEvidence
from lila.networks.registry import make_model
from lila.training.fit import fit

RUNS: dict[str, tuple[tuple[int, int, int], int, int]] = {
    "mlp": ((1, 28, 28), 60_000, 5),
    "resnet-8-8": ((3, 32, 32), 10_000, 8),
}
"""By network: the shape of an image, the number of images, and the number of epochs."""

_CLASSES = 10
_COARSE = 16  # random values across a pattern, which is smooth between them
_ROTATION = pi / 2


def whole_run(model: str, examples: int | None = None, epochs: int | None = None) -> dict[str, float]:
    """Compare a run with the defaults with one that only trains, with the same epochs, batches and optimiser."""
    shape, default_examples, default_epochs = RUNS[model]
    examples, epochs = examples or default_examples, epochs or default_epochs
    data = patterns(shape, examples)
    torch.manual_seed(0)
    net = make_model(model, shape, _CLASSES)
    with decomposition_seconds() as decompositions:
        started = time.perf_counter()
        run = fit(net, data, Affine2d(), epochs=epochs, progress="silent")
        taken = time.perf_counter() - started
    ranges = dict(run.ranges)
    others = max(value for name, value in ranges.items() if name != "rotation")
    if not ranges["rotation"] > others:
        raise NumericalError(f"{model}: the rotation does not lead among the ranges {ranges}, so nothing is reported.")
    plain = plain_run(make_model(model, shape, _CLASSES), data, epochs, run.settings.batch_size)
    weights, hyper = (sum(getattr(record.seconds, name) for record in run.history) for name in ("weights", "hyper"))
    return {
        "seconds of a plain run": plain,
        "run / plain run": taken / plain,
        "of it, steps of the weights": weights / plain,
        "of it, hyper-steps": (hyper - decompositions[0]) / plain,
        "of it, decompositions": decompositions[0] / plain,
    }


def patterns(shape: tuple[int, int, int], examples: int) -> tuple[Tensor, Tensor]:
    """Return images of ten classes, rotated by up to a quarter turn either way, and their labels."""
    generator = torch.Generator().manual_seed(1)
    channels, height, width = shape
    coarse = torch.randn(_CLASSES, channels, _COARSE, _COARSE, generator=generator)
    disc = torch.linspace(-1, 1, height)[:, None] ** 2 + torch.linspace(-1, 1, width) ** 2 < 0.8
    smooth = F.interpolate(coarse, (height, width), mode="bicubic", align_corners=False) * disc
    y = torch.randint(_CLASSES, (examples,), generator=generator)
    rotate = Affine2d(["rotation"], init=_ROTATION)
    noise = torch.rand(examples, 1, 1, generator=generator) * 2 - 1
    with torch.no_grad():
        batches = zip(y.split(1000), noise.split(1000), strict=True)
        x = torch.cat([rotate(smooth[labels], eps)[:, 0] for labels, eps in batches])
    return x + torch.randn(x.shape, generator=generator), y


def plain_run(net: nn.Module, data: tuple[Tensor, Tensor], epochs: int, batch: int) -> float:
    """Return the seconds of training with Adam on one randomly transformed view per image."""
    augmentation = Affine2d(init=0.3).requires_grad_(False)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.001)
    x, y = data
    started = time.perf_counter()
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(batch):
            noise = torch.rand(len(index), 1, augmentation.noise_dim) * 2 - 1
            views = augmentation(x[index], noise).flatten(0, 1).contiguous(memory_format=torch.channels_last)
            optimiser.zero_grad()
            F.cross_entropy(net(views), y[index]).backward()
            optimiser.step()
    return time.perf_counter() - started


@contextmanager
def decomposition_seconds() -> Iterator[list[float]]:
    """Yield a list whose only entry grows by the seconds that decompositions of running factors take meanwhile."""
    spent = [0.0]
    original = RunningEvidence.decompose

    def timed(self: RunningEvidence, move_prior: bool) -> None:
        started = time.perf_counter()
        original(self, move_prior)
        spent[0] += time.perf_counter() - started

    RunningEvidence.decompose = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        RunningEvidence.decompose = original  # type: ignore[method-assign]
