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


def test_a_composition_knows_the_units_and_the_noise_of_each_range() -> None:
    turns = lila.Compose(Gamma(), lila.Affine2d(["shear", "rotation"], init=0.2), lila.Affine2d(["rotation"], init=0.1))
    assert list(turns.ranges) == ["shear", "rotation", "rotation 2"]
    assert [turns.noise_index(name) for name in turns.ranges] == [2, 3, 4]
    assert turns.readable("rotation 2", 1.0, (1, 8, 8)) == "±57.3°"
    assert turns.unit == "radians, half sides, log-scale"
    with pytest.raises(lila.ArgumentError, match="no range named 'rotation 3'; the ranges are shear, rotation, rot"):
        turns.readable("rotation 3", 1.0, (1, 8, 8))


def test_points_are_moved_by_one_part_after_the_other() -> None:
    turn = lila.Affine2d(["rotation"], init=1.0).double()
    shift = lila.Affine2d(["x-translation"], init=0.5).double()
    p, noise = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([0.4, -0.6]).double()
    c, s = noise[:1].cos(), noise[:1].sin()
    turned = torch.stack([c * p[:, 0] - s * p[:, 1], s * p[:, 0] + c * p[:, 1]], dim=1)
    expected = turned + torch.tensor([-0.6 * 0.5 * 4, 0.0])  # half a side of 8 pixels is 4
    moved = lila.Compose(turn, shift).move_points(p, noise, (1, 8, 8))
    assert moved is not None
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-6)
    assert lila.Compose(turn, Gamma()).move_points(p, torch.zeros(3), (1, 8, 8)) is None
    assert lila.Compose().move_points(p, torch.zeros(0), (1, 8, 8)) is None
