"""Clouds of points that a Lie group moves together."""

from collections.abc import Callable
from math import pi

import pytest
import torch
from torch import Tensor, nn

import lila
import oracles

ROTATIONS = [
    lila.Generator("about z", [[0, -1, 0], [1, 0, 0], [0, 0, 0]], limit=pi),
    lila.Generator("about x", [[0, 0, 0], [0, 0, -1], [0, 1, 0]], limit=pi),
]
SHIFTS = [
    lila.Generator("turn", [[0, -1, 0], [1, 0, 0], [0, 0, 0]], limit=pi),
    lila.Generator("shift", [[0, 0, 1], [0, 0, -2], [0, 0, 0]]),
]
FAMILIES: dict[str, Callable[[], lila.LiePoints]] = {
    "rotations": lambda: lila.LiePoints(ROTATIONS, init=[0.7, 0.4]).double(),
    "homogeneous": lambda: lila.LiePoints(SHIFTS, init=[0.7, 0.4]).double(),
    "plane": lambda: lila.Rotation2d(init=0.7).double(),
}
SIZES = {"rotations": 3, "homogeneous": 2, "plane": 2}


def given(name: str, points: int = 5) -> tuple[lila.LiePoints, Tensor, Tensor]:
    family = FAMILIES[name]()
    cloud = torch.randn(4, points, SIZES[name], dtype=torch.float64)
    return family, cloud, torch.rand(4, 3, family.noise_dim, dtype=torch.float64) * 2 - 1


@pytest.mark.parametrize("name", FAMILIES)
def test_each_point_of_a_cloud_moves_as_it_would_alone(name: str) -> None:
    family, cloud, noise = given(name)
    moved = family(cloud, noise)
    assert moved.shape == (4, 3, 5, SIZES[name])
    for i in range(5):
        torch.testing.assert_close(moved[:, :, i], family(cloud[:, i], noise))


@pytest.mark.parametrize("name", FAMILIES)
def test_zero_noise_and_zero_ranges_leave_a_cloud_as_it_is(name: str) -> None:
    family, cloud, noise = given(name)
    still = cloud.unsqueeze(1).expand(4, 3, 5, SIZES[name])
    torch.testing.assert_close(family(cloud, torch.zeros_like(noise)), still)
    with torch.no_grad():
        family.eta.zero_()
    torch.testing.assert_close(family(cloud, noise), still)


@pytest.mark.parametrize("points", [1, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_gradient_of_a_cloud_in_eta_is_that_of_central_differences(name: str, points: int) -> None:
    family, cloud, noise = given(name, points)
    weights = torch.randn(4, 3, points, SIZES[name], dtype=torch.float64)

    def value() -> Tensor:
        return (weights * family(cloud, noise).sin()).sum()

    (found,) = torch.autograd.grad(value(), family.eta)
    expected = oracles.central_differences(lambda: value().item(), family.eta)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_a_rotation_of_space_keeps_distances() -> None:
    family, cloud, noise = given("rotations")
    moved = family(cloud, noise)
    torch.testing.assert_close(torch.cdist(moved[:, 0], moved[:, 0]), torch.cdist(cloud, cloud))


def test_a_network_on_clouds_learns() -> None:
    x = torch.randn(12, 4, 3)
    y = (x[:, :, 2].mean(1) > 0).long()
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    run = lila.fit(
        net, (x, y), lila.LiePoints(ROTATIONS), epochs=2, samples=2, burn_in=0, passes="exact", progress="silent"
    )
    assert run.shape == (4, 3)
    assert any(run.ranges.values())
    assert run.transform()(x).shape == x.shape
    assert run.transform()(x[0]).shape == (4, 3)


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 5, 3), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(lila.DataError, match=r"clouds of points of shape \(batch, n, 3\)"):
        lila.LiePoints(ROTATIONS).check_shape(shape)
