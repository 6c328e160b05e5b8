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
    assert composed.ranges == pytest.approx({"rotation": 1.0, "rotation 2": 3.14159265, "shear": 5.0})
    assert composed.readable_ranges((1, 8, 8))["rotation 2"] == "±180.0°"
    composed.saturate_()
    assert composed.ranges["rotation 2"] == pytest.approx(3.14159265)
    assert len(list(composed.parameters())) == 2


class Shift(lila.Augmentation):
    """An augmentation that takes no noise."""

    noise_dim = 0

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return (x + 1).unsqueeze(1).expand(len(x), noise.shape[1], *x.shape[1:])


def test_a_part_without_noise_is_applied_wherever_it_stands() -> None:
    x, noise = torch.zeros(2, 2), torch.rand(2, 3, 1)
    turn = lila.Rotation2d(init=1.0)
    torch.testing.assert_close(lila.Compose(Shift(), turn)(x, noise), turn(torch.ones(2, 2), noise))
    torch.testing.assert_close(lila.Compose(turn, Shift())(x, noise), turn(x, noise) + 1)


def test_ranges_of_nested_parts_are_all_kept() -> None:
    turns = [lila.Rotation2d(init=value) for value in (0.1, 0.2, 0.3)]
    nested = lila.Compose(lila.Compose(turns[0], turns[1]), turns[2])
    assert list(nested.ranges.values()) == pytest.approx([0.1, 0.2, 0.3])
