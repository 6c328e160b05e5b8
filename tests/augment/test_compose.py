import pytest
import torch

import lila
from cases import Gamma


def test_parts_are_applied_in_order_with_their_own_noise() -> None:
    turn, tone = lila.Affine2d(["rotation"], init=0.8).double(), Gamma().double()
    x = torch.rand(2, 1, 5, 5, dtype=torch.float64)
    noise = torch.rand(2, 3, 3, dtype=torch.float64) * 2 - 1
    composed = lila.Compose(turn, tone)
    assert composed.noise_dim == 3
    expected = torch.empty(2, 3, 1, 5, 5, dtype=torch.float64)
    for n in range(2):
        for s in range(3):
            turned = turn(x[n : n + 1], noise[n : n + 1, s : s + 1, :1])[:, 0]
            expected[n, s] = tone(turned, noise[n : n + 1, s : s + 1, 1:])[0, 0]
    torch.testing.assert_close(composed(x, noise), expected)


def test_a_composition_of_nothing_is_the_identity() -> None:
    x = torch.rand(2, 3)
    assert torch.equal(lila.Compose()(x, torch.zeros(2, 4, 0)), x.unsqueeze(1).expand(2, 4, 3))


def test_ranges_of_all_parts_are_told_apart() -> None:
    composed = lila.Compose(lila.Affine2d(["rotation"], init=1.0), lila.Affine2d(["rotation", "shear"], init=5.0))
    assert composed.ranges == pytest.approx({"rotation": 1.0, "1.rotation": 3.14159265, "shear": 5.0})
    assert composed.readable_ranges((1, 8, 8))["1.rotation"] == "±180.0°"
    composed.saturate_()
    assert composed.ranges["1.rotation"] == pytest.approx(3.14159265)
    assert len(list(composed.parameters())) == 2
