from math import pi

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import lila
from lila.augment import Padding, warp


def one(augmentation: lila.Augmentation, x: Tensor, noise: list[float]) -> Tensor:
    """A single transformation of a batch of images."""
    eps = torch.tensor(noise, dtype=x.dtype).expand(len(x), 1, len(noise))
    views: Tensor = augmentation(x, eps)
    return views[:, 0]


@given(st.integers(1, 9), st.integers(-4, 4))
def test_quarter_turns_of_a_square_image_are_rot90(side: int, quarters: int) -> None:
    x = torch.rand(2, 3, side, side, dtype=torch.float64)
    rotation = lila.Affine2d(["rotation"], init=pi).double()
    turned = one(
        rotation, x, [quarters / 2 if abs(quarters) <= 2 else quarters / 2 - 2 * (quarters > 0) + 2 * (quarters < 0)]
    )
    torch.testing.assert_close(turned, torch.rot90(x, -quarters, dims=(2, 3)), rtol=0, atol=1e-5)


@given(st.integers(2, 8), st.integers(2, 8), st.integers(-3, 3), st.integers(-3, 3))
def test_whole_pixel_shifts_are_shifted_copies(height: int, width: int, right: int, down: int) -> None:
    x = torch.rand(1, 2, height, width, dtype=torch.float64)
    unit = 2 / max(height, width)
    affine = lila.Affine2d(["x-translation", "y-translation"], init=[8 * unit, 8 * unit]).double()
    shifted = one(affine, x, [right / 8, down / 8])
    expected = torch.zeros_like(x)
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                expected[:, :, i, j] = x[:, :, i - down, j - right]
    torch.testing.assert_close(shifted, expected, rtol=0, atol=1e-6)


def test_rotation_of_a_rectangular_image_is_rigid() -> None:
    x = torch.zeros(1, 1, 5, 9, dtype=torch.float64)
    x[0, 0, 2, 6] = 1  # two pixels right of the centre goes to two pixels below it
    turned = one(lila.Affine2d(["rotation"], init=pi).double(), x, [0.5])
    expected = torch.zeros_like(x)
    expected[0, 0, 4, 4] = 1
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-6)


def test_scaling_by_two_takes_the_centre_apart() -> None:
    x = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    x[..., 2:6, 2:6] = 1
    scale = lila.Affine2d(["x-scale", "y-scale"], init=float(torch.tensor(2.0).log())).double()
    large = one(scale, x, [1.0, 1.0])
    assert large.sum() > 3.5 * x.sum()
    torch.testing.assert_close(large[..., 2:6, 2:6], torch.ones(1, 1, 4, 4, dtype=torch.float64))


@pytest.mark.parametrize(("padding", "corner"), [("zeros", 0.0), ("border", 3.0), ("reflection", 2.0)])
def test_padding_decides_what_comes_in_from_outside(padding: str, corner: float) -> None:
    x = torch.tensor([[[[3.0, 2.0, 1.0, 0.0]] * 4]], dtype=torch.float64)
    shift = lila.Affine2d(["x-translation"], padding=padding, init=1.0).double()
    # Two pixels to the right: reflection at the edge brings the second column into the first.
    moved = one(shift, x, [1.0])
    torch.testing.assert_close(moved[0, 0, 0, 0], torch.tensor(corner, dtype=torch.float64))


@given(st.integers(0, 1000))
def test_samples_do_not_see_each_other(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(2, 2, 5, 5, generator=generator)
    noise = torch.rand(2, 4, 6, generator=generator) * 2 - 1
    affine = lila.Affine2d(init=0.4)
    together = affine(x, noise)
    for s in range(4):
        torch.testing.assert_close(affine(x, noise[:, s : s + 1])[:, 0], together[:, s])


def test_warp_by_the_identity_and_types() -> None:
    x = torch.rand(2, 1, 6, 7)
    eye = torch.eye(3, dtype=torch.float64).expand(2, 3, 3, 3)
    warped = warp(x, eye, Padding.ZEROS)
    assert warped.dtype == torch.float32
    torch.testing.assert_close(warped, x.unsqueeze(1).expand(2, 3, 1, 6, 7))
