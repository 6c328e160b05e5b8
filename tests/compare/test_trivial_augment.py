"""The operations of TrivialAugment."""

import pytest
import torch

import lila
from lila.compare.trivial_augment import OPERATIONS, TrivialAugment
from lila.data.digits import read_digits


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return read_digits().train.images(torch.arange(6))


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_keeps_pixels_in_their_interval(name: str, images: torch.Tensor) -> None:
    for strength in (-1.0, 0.0, 0.6, 1.0):
        made = OPERATIONS[name](images, torch.full((len(images),), strength))
        assert made.shape == images.shape
        assert float(made.min()) >= -1e-6
        assert float(made.max()) <= 1 + 1e-6
    if name not in ("auto-contrast", "equalise", "posterise", "solarise"):
        torch.testing.assert_close(OPERATIONS[name](images, torch.zeros(len(images))), images, atol=1e-5, rtol=0)
    if name not in ("identity", "colour", "auto-contrast"):  # grey digits have no colour, and use the whole interval
        assert not torch.allclose(OPERATIONS[name](images, torch.full((len(images),), 0.6)), images, atol=1e-2)


def test_what_an_operation_does(images: torch.Tensor) -> None:
    square = torch.zeros(1, 1, 6, 6)
    square[..., 0, :] = 1
    turned = OPERATIONS["rotate"](square, torch.tensor([2 / 3]))  # two thirds of 135 degrees
    torch.testing.assert_close(turned, torch.rot90(square, 1, (2, 3)), atol=1e-5, rtol=0)
    assert not OPERATIONS["shift-x"](images, torch.ones(len(images))).any()  # by a whole side
    torch.testing.assert_close(
        OPERATIONS["solarise"](images, torch.ones(len(images))), (1 - images).where(images > 0, 0)
    )
    assert len(OPERATIONS["posterise"](images, torch.ones(len(images))).unique()) <= 4
    even = OPERATIONS["equalise"](torch.linspace(0.4, 0.6, 16).view(1, 1, 4, 4), torch.zeros(1))
    torch.testing.assert_close(even.flatten(), torch.linspace(0, 1, 16), atol=1e-4, rtol=0)


def test_a_view_is_one_operation_on_the_unscaled_image(images: torch.Tensor) -> None:
    augmentation = TrivialAugment()
    augmentation.adapt(lila.InputFormat((1, 16, 16), (0.3,), (0.5,)))
    names, scaled = list(OPERATIONS), (images - 0.3) / 0.5
    noise = torch.tensor([[2 * (names.index("solarise") + 0.5) / len(names) - 1, 0.8], [-0.99, 0.4]]).expand(6, 2, 2)
    views = augmentation(scaled, noise)
    wanted = OPERATIONS["solarise"](images, torch.full((6,), 0.8))
    torch.testing.assert_close(views[:, 0] * 0.5 + 0.3, wanted)
    torch.testing.assert_close(views[:, 1], scaled)  # the first operation is none
