"""The time that is foretold before the first epoch, against the time that the run takes."""

import re
import time
from typing import Any

import pytest
import torch
from torch import Tensor

import lila
from lila.networks.registry import make_model


def images(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 4
    x = torch.rand(n, 3, 16, 16, generator=generator) * 0.5
    x[torch.arange(n), y % 3, :, 4:10] += 0.5 * (1 + y // 3)[:, None, None]
    return x, y


def foretold(told: str) -> float:
    found = re.search(r"Expected: (?:(\d+) min )?(\d+) s", told)
    assert found is not None, told
    return 60 * int(found[1] or 0) + int(found[2])


@pytest.mark.slow
@pytest.mark.parametrize("size", [200, 600])
@pytest.mark.parametrize(
    ("model", "epochs", "baseline"),
    [("mlp", 12, False), ("mlp", 12, True), ("cnn", 6, False), ("cnn", 6, True), ("resnet-8-8", 2, False)],
)
def test_the_time_is_foretold_within_a_factor_of_two(
    model: str, epochs: int, size: int, baseline: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"epochs": epochs, "samples": 8, "baseline": baseline}
    net = make_model(model, (3, 16, 16), 4)
    began: list[float] = []
    lila.fit(
        net, images(size), lila.Affine2d(), test=images(100), progress="lines",
        callbacks=[lambda record: began.append(time.perf_counter() - record.seconds.total)], **settings,
    )  # fmt: skip
    took = time.perf_counter() - began[0]
    expected = foretold(capsys.readouterr().err)
    print(f"{model}, {size} images: {expected} s expected, {took:.1f} s taken")
    assert took / 2 - 1 <= expected <= 2 * took + 1  # it is told in whole seconds
