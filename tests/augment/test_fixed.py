"""Augmentations under noise that is the same for every input."""

import pytest
import torch

import lila
from cases import AUGMENTATIONS


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_fixed_noise_is_the_same_noise_for_every_image(augmentation: str, samples: int) -> None:
    family = AUGMENTATIONS[augmentation]().double()
    x = torch.rand(4, 2, 5, 6, dtype=torch.float64)
    noise = torch.rand(samples, family.noise_dim, dtype=torch.float64) * 2 - 1
    expected = family(x, noise.expand(4, -1, -1))
    torch.testing.assert_close(family.fixed(noise)(x), expected.detach())
    assert expected.requires_grad or not list(family.parameters())


def test_points_and_clouds_under_fixed_noise() -> None:
    turn = lila.Generator("turn", [[0, -1, 0.5], [1, 0, 0], [0, 0, 0]])
    family = lila.LiePoints([turn], init=0.5)
    noise = torch.tensor([[0.3], [-1.0]])
    for x in (torch.rand(4, 2), torch.rand(4, 6, 2), torch.rand(4, 6, 3)):
        torch.testing.assert_close(family.fixed(noise)(x), family(x, noise.expand(4, -1, -1)).detach())
