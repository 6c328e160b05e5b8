"""Learned transforms on plain tensors and PIL images: what training saw, noise of one's own, masks and points."""

import pickle

import numpy as np
import pytest
import torch
from learned_transforms import HEIGHT, MEAN, ONE, SHAPE, STD, WIDTH, affine, centroid, learned, quarter_turn, spot
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import lila
from lila.augment.pipelines import native_transform

IMAGES = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(1))


def scaled(images: Tensor) -> Tensor:
    return (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_the_same_noise_gives_the_image_that_training_saw(padding: str) -> None:
    noise = learned().draw(4)
    seen = affine(padding)(scaled(IMAGES), noise[:, None])[:, 0].detach()
    torch.testing.assert_close(learned(padding=padding)(scaled(IMAGES), noise=noise), seen, rtol=0, atol=1e-6)
    torch.testing.assert_close(scaled(learned(True, padding)(IMAGES, noise=noise)), seen, rtol=0, atol=1e-4)


def test_each_image_of_a_batch_has_its_own_noise() -> None:
    transform, noise = learned(), learned().draw(4)
    together = transform(IMAGES, noise=noise)
    for image, e, moved in zip(IMAGES, noise, together, strict=True):
        torch.testing.assert_close(transform(image, noise=e), moved, rtol=0, atol=1e-6)
    alike = transform(IMAGES[:1].expand(4, -1, -1, -1))
    assert all(not torch.equal(alike[0], other) for other in alike[1:])


def test_noise_is_uniform_and_follows_the_seed_of_torch() -> None:
    transform = learned()
    torch.manual_seed(3)
    first = transform(IMAGES)
    assert not torch.equal(transform(IMAGES), first)
    torch.manual_seed(3)
    assert torch.equal(transform(IMAGES), first)
    drawn = transform.draw(4000)
    assert drawn.shape == (4000, 6)
    assert float(drawn.abs().max()) <= 1
    assert float(drawn.mean(0).abs().max()) < 0.05
    assert float((drawn.square().mean(0) - 1 / 3).abs().max()) < 0.03


class Alike(Dataset[Tensor]):
    """The same image again and again, transformed."""

    def __init__(self, transform: lila.LearnedTransform) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Tensor:
        moved: Tensor = self.transform(IMAGES[0])
        return moved


def test_workers_draw_differently_and_follow_the_seed() -> None:
    def drawn() -> Tensor:
        torch.manual_seed(5)
        return torch.cat(list(DataLoader(Alike(learned()), batch_size=2, num_workers=2)))

    images = drawn()
    assert all(not torch.equal(images[i], images[j]) for i in range(4) for j in range(i))
    assert torch.equal(drawn(), images)


@pytest.mark.parametrize("library", [None, "torchvision", "kornia", "albumentations"])
def test_it_pickles(library: str | None) -> None:
    transform = learned(True) if library is None else native_transform(learned(True), library)
    again = pickle.loads(pickle.dumps(transform))
    core = again if library is None else again.learned
    noise = core.draw(4)
    assert torch.equal(core(IMAGES, noise=noise), learned(True)(IMAGES, noise=noise))


def test_it_is_a_copy_that_is_not_trained() -> None:
    family = affine()
    transform = lila.LearnedTransform(family, lila.InputFormat(SHAPE))
    noise, before = transform.draw(), family.eta.detach().clone()
    moved = transform(IMAGES[0], noise=noise)
    with torch.no_grad():
        family.eta.zero_()
    assert torch.equal(transform(IMAGES[0], noise=noise), moved)
    assert torch.equal(transform.augmentation.state_dict()["eta"], before)
    assert not any(p.requires_grad for p in transform.parameters())
    assert not moved.requires_grad


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.uint16, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.float64]
)
def test_images_of_every_type_stay_of_it(dtype: torch.dtype) -> None:
    transform, noise = learned(True), learned().draw()
    white = 1 if dtype.is_floating_point else torch.iinfo(dtype).max
    image = (IMAGES[0].double() * white).to(dtype)
    moved = transform(image, noise=noise)
    assert moved.dtype == dtype
    expected = transform(image.double() / white, noise=noise)
    step = 0.02 if dtype in (torch.float16, torch.bfloat16) else 0.51 / white if white > 1 else 1e-9
    assert float((moved.double() / white - expected.clamp(0, 1)).abs().max()) <= max(step, 1e-6)


def test_negative_integers_stay_negative() -> None:
    image = torch.full((3, 8, 8), -1000, dtype=torch.int16)
    moved = learned()(image, noise=torch.zeros(6))
    assert torch.equal(moved, image)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_pil_image_stays_one(mode: str) -> None:
    pixels = (IMAGES[0] * 255).to(torch.uint8)
    picture = Image.fromarray(pixels.permute(1, 2, 0).numpy()).convert(mode)
    channels = len(picture.getbands())
    transform = lila.LearnedTransform(affine(), lila.InputFormat((channels, HEIGHT, WIDTH)))
    noise = transform.draw()
    moved = transform(picture, noise=noise)
    assert (moved.mode, moved.size) == (mode, (WIDTH, HEIGHT))
    as_tensor = torch.from_numpy(np.array(picture)).reshape(HEIGHT, WIDTH, channels).permute(2, 0, 1)
    found = torch.from_numpy(np.array(moved)).reshape(HEIGHT, WIDTH, channels).permute(2, 0, 1)
    assert torch.equal(found, transform(as_tensor, noise=noise))
    with pytest.raises(lila.DataError, match="mode 'P'"):
        transform(picture.convert("P"))


def test_a_sample_keeps_its_form_and_its_labels() -> None:
    label = torch.tensor(7)
    moved = learned()({"image": IMAGES[0], "labels": [label, "cat"]})
    assert moved["labels"] == [label, "cat"]
    assert moved["image"].shape == SHAPE
    image, same = learned()(torch.nn.Parameter(IMAGES[0], requires_grad=False), label)
    assert same is label
    assert not torch.equal(image, IMAGES[0])


def test_masks_take_the_labels_of_the_nearest_pixels() -> None:
    transform, noise = learned(), learned().draw()
    masks = torch.randint(2**40, (2, HEIGHT, WIDTH)) + 1
    moved = transform.transform_masks(masks, noise)
    T = affine().elements(noise[None, None])[0, 0].detach().double()
    half, expected = max(HEIGHT, WIDTH) / 2, torch.zeros_like(masks)
    for row in range(HEIGHT):
        for column in range(WIDTH):
            p = torch.tensor([column + 0.5 - WIDTH / 2, row + 0.5 - HEIGHT / 2, half], dtype=torch.float64) / half
            x, y = (torch.linalg.inv(T) @ p * half)[:2].tolist()
            i, j = int(np.floor(y + HEIGHT / 2)), int(np.floor(x + WIDTH / 2))
            if 0 <= i < HEIGHT and 0 <= j < WIDTH:
                expected[:, row, column] = masks[:, i, j]
    assert torch.equal(moved, expected)
    assert torch.equal(transform.transform_masks(masks > 2**39, noise), expected > 2**39)


@pytest.mark.parametrize("seed", range(3))
def test_key_points_and_boxes_follow_the_image(seed: int) -> None:
    transform = learned()
    noise = 0.5 * transform.draw()
    moved = transform(spot(10.5, 8.25), noise=noise)
    points = transform.transform_points(torch.tensor([[10.5, 8.25]]), noise, (HEIGHT, WIDTH))
    torch.testing.assert_close(points[0].double(), centroid(moved), rtol=0, atol=0.02)
    box = transform.transform_boxes(torch.tensor([[11.0 - 1, 8.75 - 2, 11.0 + 1, 8.75 + 2]]), noise, (HEIGHT, WIDTH))
    torch.testing.assert_close((box[0, :2] + box[0, 2:]) / 2 - 0.5, points[0])  # an affine map keeps the centre


def test_a_quarter_turn_is_exact() -> None:
    transform, image = quarter_turn(), torch.rand(3, 8, 8)
    torch.testing.assert_close(transform(image, noise=ONE), image.rot90(-1, (1, 2)), rtol=0, atol=1e-5)
    masks = torch.arange(64).reshape(8, 8)
    assert torch.equal(transform.transform_masks(masks, ONE), masks.rot90(-1))
    points = torch.tensor([[0.0, 0.0], [2.0, 1.0]])
    expected = torch.tensor([[7.0, 0.0], [6.0, 2.0]])
    torch.testing.assert_close(transform.transform_points(points, ONE, (8, 8)), expected, rtol=0, atol=1e-5)
    box = transform.transform_boxes(torch.tensor([[1.0, 0.0, 3.0, 1.0]]), ONE, (8, 8))
    torch.testing.assert_close(box, torch.tensor([[7.0, 1.0, 8.0, 3.0]]), rtol=0, atol=1e-5)


def test_a_composition_moves_masks_and_points_part_by_part() -> None:
    turns = [lila.Affine2d(["rotation"], init=torch.pi / 2) for _ in range(2)]
    both = lila.LearnedTransform(lila.Compose(*turns), lila.InputFormat((3, 8, 8)))
    masks, noise = torch.arange(64).reshape(8, 8), torch.ones(2)
    assert torch.equal(both.transform_masks(masks, noise), masks.rot90(2))
    points = both.transform_points(torch.tensor([[0.0, 1.0]]), noise, (8, 8))
    torch.testing.assert_close(points, torch.tensor([[7.0, 6.0]]), rtol=0, atol=1e-5)


class Gamma(lila.Augmentation):
    """Changes values and moves nothing, but does not say so."""

    noise_dim = 1

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x.unsqueeze(1) + noise[..., None, None]


def test_what_a_family_does_not_say_is_refused() -> None:
    for family in (Gamma(), lila.Compose(affine(), Gamma()), lila.Compose(Gamma(), affine())):
        transform = lila.LearnedTransform(family, lila.InputFormat(SHAPE))
        assert transform(IMAGES).shape == IMAGES.shape
        with pytest.raises(lila.ArgumentError, match=r"masks.*`transform_masks`"):
            transform.transform_masks(torch.zeros(8, 8), transform.draw())
        with pytest.raises(lila.ArgumentError, match=r"key points.*`move_points`"):
            transform.transform_points(torch.zeros(1, 2), transform.draw(), (8, 8))


def test_points_are_transformed_too() -> None:
    transform = lila.LearnedTransform(lila.Rotation2d(init=1.0), lila.InputFormat((2,)))
    noise = torch.tensor([0.5])
    torch.testing.assert_close(
        transform(torch.tensor([1.0, 0.0]), noise=noise),
        torch.tensor([0.5, 0.0]).cos() * torch.tensor([1.0, 0.0]) + torch.tensor([0.0, 0.5]).sin(),
    )
    assert transform(torch.rand(7, 2)).shape == (7, 2)


def test_bad_input_is_refused_in_words() -> None:
    transform = learned(True)
    with pytest.raises(lila.DataError, match=r"neither an input nor a batch"):
        transform(torch.rand(HEIGHT, WIDTH))
    with pytest.raises(lila.DataError, match="inputs of 3 channels, but these have 1"):
        transform(torch.rand(1, HEIGHT, WIDTH))
    for image in (torch.rand(*SHAPE) > 0.5, torch.ones(SHAPE, dtype=torch.int64)):
        with pytest.raises(lila.DataError, match=r"cannot have the type torch\.(bool|int64)"):
            transform(image)
    with pytest.raises(lila.DataError, match="nothing to transform"):
        transform("cat", 3)
    with pytest.raises(lila.ArgumentError, match=r"shape \(6,\), but \(4, 6\)"):
        transform(IMAGES[0], noise=transform.draw(4))
    with pytest.raises(lila.ArgumentError, match="none of them zero"):
        lila.LearnedTransform(affine(), lila.InputFormat(SHAPE, (0.0,), (0.0,)))
    with pytest.raises(lila.ArgumentError, match="not averaged over transformations"):
        lila.LearnedTransform(lila.Compose(), lila.InputFormat(SHAPE))
    with pytest.raises(lila.ArgumentError, match="no transform for 'tensorflow'"):
        native_transform(transform, "tensorflow")
    assert transform(torch.rand(0, *SHAPE)).shape == (0, *SHAPE)
