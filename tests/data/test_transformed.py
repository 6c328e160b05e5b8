from math import log, pi

import pytest
import torch
from torch import Tensor

from lila.augment import Padding, warp
from lila.augment.noise import Draw, Stream
from lila.data.transformed import VERSIONS, Motion, VersionName, transformed, true_ranges
from lila.errors import ArgumentError

MOVING = [name for name in VersionName if name is not VersionName.ORIGINAL]
SIDE = 28


def pictures(n: int = 6, shape: tuple[int, ...] = (1, SIDE, SIDE)) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(2))


def amounts(n: int, count: int, seed: int, part: int = 0) -> Tensor:
    """The random amounts in [-1, 1] of the first n images."""
    return Draw(seed, part).uniform(torch.arange(n), (1, count), torch.float64, Stream.DATA)[:, 0]


def homogeneous(rows: list[list[Tensor]]) -> Tensor:
    """Matrices (n, 1, 3, 3) of which the entries are given as (n,)."""
    one = torch.ones_like(rows[0][0])
    filled = [*rows, [0 * one, 0 * one, one]]
    return torch.stack([torch.stack(row, dim=-1) for row in filled], dim=-2)[:, None]


def maps_back(version: VersionName, eps: Tensor) -> Tensor:
    """The map from output to input coordinates of each version, written out."""
    one, zero = torch.ones(len(eps), dtype=eps.dtype), torch.zeros(len(eps), dtype=eps.dtype)
    if version is VersionName.TRANSLATED:
        x, y = (8 * eps / (SIDE / 2)).unbind(1)
        return homogeneous([[one, zero, -x], [zero, one, -y]])
    if version is VersionName.SCALED:
        shrink = 2.0 ** -eps[:, 0]
        return homogeneous([[shrink, zero, zero], [zero, shrink, zero]])
    if version is VersionName.INDEPENDENTLY_SCALED:
        x, y = (2.0**-eps).unbind(1)
        return homogeneous([[x, zero, zero], [zero, y, zero]])
    angle = -(pi if version is VersionName.FULLY_ROTATED else pi / 2) * eps[:, 0]
    return homogeneous([[angle.cos(), -angle.sin(), zero], [angle.sin(), angle.cos(), zero]])


def test_the_original_is_the_original() -> None:
    images = pictures()
    assert torch.equal(transformed(images, torch.arange(6), "original", seed=3), images)


@pytest.mark.parametrize("version", MOVING)
@pytest.mark.parametrize("part", [0, 1])
def test_each_image_moves_by_its_own_amount_within_the_reach(version: VersionName, part: int) -> None:
    images = pictures()
    found = transformed(images, torch.arange(6), version, seed=9, part=part)
    eps = amounts(6, len(VERSIONS[version]), 9, part)
    assert (eps.abs() <= 1).all()
    expected = warp(images.double(), maps_back(version, eps), Padding.ZEROS)[:, 0]
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", MOVING)
def test_an_image_moves_in_the_same_way_whatever_comes_with_it(version: VersionName) -> None:
    images, index = pictures(), torch.arange(6)
    whole = transformed(images, index, version, seed=1)
    assert torch.equal(transformed(images, index, version, seed=1), whole)
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    torch.testing.assert_close(transformed(images[order], order, version, seed=1), whole[order], rtol=0, atol=1e-6)
    for i in range(6):
        alone = transformed(images[i : i + 1], index[i : i + 1], version, seed=1)
        torch.testing.assert_close(alone[0], whole[i], rtol=0, atol=1e-6)


@pytest.mark.parametrize("version", MOVING)
def test_another_seed_another_index_and_another_part_move_otherwise(version: VersionName) -> None:
    images, index = pictures(1).expand(4, -1, -1, -1), torch.arange(4)
    base = transformed(images, index, version, seed=1)
    others = [
        transformed(images, index, version, seed=2),
        transformed(images, index + 4, version, seed=1),
        transformed(images, index, version, seed=1, part=1),
    ]
    for other in others:
        assert ((other - base).flatten(1).abs().amax(1) > 0.01).all()
    assert len(torch.unique(base.flatten(1), dim=0)) == 4


def test_a_shift_by_whole_pixels_is_a_shifted_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    # With noise (1/2, -1/4) the reach of 8 pixels makes 4 to the right and 2 up.
    noise = torch.tensor([0.5, -0.25]).expand(1, 1, 2)
    monkeypatch.setattr(Draw, "uniform", lambda *_: noise)
    image = pictures(1)
    expected = torch.zeros_like(image)
    expected[..., :-2, 4:] = image[..., 2:, :-4]
    found = transformed(image, torch.tensor([0]), "translated", seed=0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_pixels_are_pixels_in_a_rectangular_image_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draw, "uniform", lambda *_: torch.tensor([[[0.25, 0.5]]]))
    image = pictures(1, (3, 12, 20))
    expected = torch.zeros_like(image)
    expected[..., 4:, 2:] = image[..., :-4, :-2]
    found = transformed(image, torch.tensor([0]), "translated", seed=0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("version", "turns"), [("partially-rotated", 1), ("fully-rotated", 2)])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_rotations_are_a_quarter_and_a_half_turn(
    monkeypatch: pytest.MonkeyPatch, version: str, turns: int, sign: int
) -> None:
    monkeypatch.setattr(Draw, "uniform", lambda *_: torch.tensor([[[float(sign)]]]))
    image = pictures(1)
    found = transformed(image, torch.tensor([0]), version, seed=0)
    torch.testing.assert_close(found, torch.rot90(image, -sign * turns, (2, 3)), rtol=0, atol=1e-4)


def test_scaling_moves_both_axes_alike() -> None:
    images = pictures()
    symmetric = (images + images.mT) / 2
    found = transformed(symmetric, torch.arange(6), "scaled", seed=3)
    torch.testing.assert_close(found, found.mT, rtol=0, atol=1e-4)
    assert ((found - symmetric).flatten(1).abs().amax(1) > 0.01).all()


def test_scaling_is_by_at_most_two_and_at_least_a_half() -> None:
    block = torch.zeros(200, 1, 32, 32)
    block[..., 12:20, 12:20] = 1
    areas = transformed(block, torch.arange(200), "scaled", seed=0).sum((1, 2, 3)) / 64
    assert 0.25 * 0.9 < areas.min() < 0.3
    assert 3.5 < areas.max() < 4 * 1.1


def test_type_and_shape_stay() -> None:
    for dtype in (torch.float32, torch.float64):
        found = transformed(pictures(3, (3, 7, 9)).to(dtype), torch.arange(3), "scaled", seed=0)
        assert found.dtype == dtype
        assert found.shape == (3, 3, 7, 9)
        assert not found.requires_grad


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("original", {}),
        ("partially-rotated", {"rotation": pi / 2}),
        ("fully-rotated", {"rotation": pi}),
        ("translated", {"x-translation": 8 / 14, "y-translation": 8 / 14}),
        ("scaled", {"x-scale": log(2), "y-scale": log(2)}),
    ],
)
def test_true_ranges(version: str, expected: dict[str, float]) -> None:
    names = ("x-translation", "y-translation", "rotation", "x-scale", "y-scale", "shear")
    assert true_ranges(version, (1, 28, 28)) == pytest.approx(dict.fromkeys(names, 0.0) | expected)


def test_a_shift_in_pixels_is_in_halves_of_the_longer_side() -> None:
    assert true_ranges("translated", (3, 32, 20))["x-translation"] == pytest.approx(8 / 16)
    assert Motion(("rotation",), 0.3).range_((1, 28, 28)) == 0.3


def test_every_version_has_a_row_and_an_unknown_one_is_told() -> None:
    assert set(VERSIONS) == set(VersionName)
    with pytest.raises(ArgumentError, match=r"'sheared'.*'partially-rotated'"):
        transformed(pictures(1), torch.tensor([0]), "sheared", seed=0)
    with pytest.raises(ArgumentError, match="'sheared'"):
        true_ranges("sheared", (1, 28, 28))
