"""Learned transforms in the pipelines of torchvision, kornia and albumentations, with masks, boxes and key points."""

from typing import Any

import albumentations
import kornia.augmentation
import numpy as np
import pytest
import torch
from learned_transforms import HEIGHT, ONE, SHAPE, WIDTH, affine, learned, quarter_turn, spot
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

import lila
from lila.augment.pipelines import native_transform

SIZE = (HEIGHT, WIDTH)
IMAGES = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(2))
BOX, POINT = [6.0, 5.0, 12.0, 9.0], [7.0, 8.0]
MASK = torch.randint(5, SIZE, generator=torch.Generator().manual_seed(3))


def annotated(image: Any, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    return {
        "image": image,
        "boxes": tv_tensors.BoundingBoxes([BOX], format="XYXY", canvas_size=size),
        "masks": tv_tensors.Mask(MASK[: size[0], : size[1]]),
        "points": tv_tensors.KeyPoints([POINT], canvas_size=size),
        "label": 3,
    }


def test_torchvisions_annotations_move_as_its_own_rotation_moves_them() -> None:
    image = torch.rand(3, 16, 16)
    sample = annotated(tv_tensors.Image(image), (16, 16))
    moved = quarter_turn(16)(sample, noise=ONE)
    assert {name: type(value) for name, value in moved.items()} == {name: type(v) for name, v in sample.items()}
    torch.testing.assert_close(moved["image"], v2.functional.rotate(sample["image"], -90), rtol=0, atol=1e-5)
    assert torch.equal(moved["masks"], v2.functional.rotate(sample["masks"], -90))
    boxes = v2.functional.rotate(sample["boxes"], -90)
    torch.testing.assert_close(moved["boxes"], boxes, rtol=0, atol=1e-4)
    assert (moved["boxes"].format, moved["boxes"].canvas_size) == (boxes.format, boxes.canvas_size)
    assert moved["points"].tolist() == [pytest.approx([15 - 8.0, 7.0], abs=1e-4)]  # column 15 - row, row column
    assert moved["label"] == 3


@pytest.mark.parametrize("box_format", ["XYWH", "CXCYWH"])
def test_boxes_keep_their_format_and_are_clamped(box_format: str) -> None:
    sample = annotated(tv_tensors.Image(IMAGES[0]))
    noise = learned().draw()
    expected = learned()(sample, noise=noise)["boxes"]
    other = v2.ConvertBoundingBoxFormat(box_format)(sample)
    moved = learned()(other, noise=noise)["boxes"]
    assert moved.format.value == box_format
    torch.testing.assert_close(v2.functional.convert_bounding_box_format(moved, new_format=expected.format), expected)
    whole = tv_tensors.BoundingBoxes([[0, 0, WIDTH, HEIGHT]], format="XYXY", canvas_size=SIZE)
    assert learned()(whole, noise=torch.ones(6)).tolist() == [[0, 0, WIDTH, HEIGHT]]


def test_boxes_that_are_turned_are_refused_and_so_are_boxes_of_a_batch() -> None:
    turned = tv_tensors.BoundingBoxes([[4.0, 4.0, 3.0, 3.0, 30.0]], format="XYWHR", canvas_size=SIZE)
    with pytest.raises(lila.DataError, match="XYWHR"):
        learned()(turned)
    with pytest.raises(lila.DataError, match="before they are gathered in batches"):
        learned()(annotated(tv_tensors.Image(IMAGES)))


def test_a_batch_of_torchvisions_images_has_masks_and_points_of_its_own() -> None:
    masks = tv_tensors.Mask(torch.randint(5, (4, 2, *SIZE)))
    points = tv_tensors.KeyPoints(torch.rand(4, 3, 2) * 20, canvas_size=SIZE)
    noise = learned().draw(4)
    images, moved_masks, moved_points = learned()(tv_tensors.Image(IMAGES), masks, points, noise=noise)
    for i in range(4):
        one = learned()(tv_tensors.Image(IMAGES[i]), tv_tensors.Mask(masks[i]), noise=noise[i])
        torch.testing.assert_close(images[i], one[0], rtol=0, atol=1e-6)
        assert torch.equal(moved_masks[i], one[1])
        point = learned().transform_points(points[i].as_subclass(Tensor), noise[i], SIZE)
        torch.testing.assert_close(moved_points[i].as_subclass(Tensor), point)


def test_an_image_without_objects_has_none_afterwards() -> None:
    boxes = tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYWH", canvas_size=SIZE)
    masks, points = tv_tensors.Mask(torch.zeros(0, *SIZE)), tv_tensors.KeyPoints(torch.zeros(0, 2), canvas_size=SIZE)
    moved = learned()(tv_tensors.Image(IMAGES[0]), boxes, masks, points)
    assert [tuple(part.shape) for part in moved] == [SHAPE, (0, 4), (0, *SIZE), (0, 2)]
    pipeline = albumentations.Compose(
        [native_transform(learned(), "albumentations")],
        bbox_params=albumentations.BboxParams(format="coco", label_fields=[]),
        keypoint_params=albumentations.KeypointParams(format="xy"),
    )
    found = pipeline(image=IMAGES[0].permute(1, 2, 0).numpy().copy(), bboxes=[], keypoints=[])
    assert (len(found["bboxes"]), len(found["keypoints"])) == (0, 0)


def test_the_frames_of_a_video_move_alike() -> None:
    video = tv_tensors.Video(IMAGES[:1].expand(2, 3, -1, -1, -1, -1).flatten(1, 2).contiguous())
    moved = learned()(video)
    assert type(moved) is tv_tensors.Video
    assert moved.shape == video.shape
    assert all(torch.equal(frame, moved[0, 0]) for frame in moved.flatten(0, 1))


@pytest.mark.parametrize("native", [True, False])
def test_it_lives_in_a_pipeline_of_torchvision(native: bool) -> None:
    transform = native_transform(learned(), "torchvision") if native else learned()
    assert isinstance(transform, v2.Transform) == native
    pipeline = v2.Compose([v2.RandomHorizontalFlip(p=1.0), transform, v2.ToDtype(torch.float64)])
    torch.manual_seed(0)
    sample = annotated(tv_tensors.Image(IMAGES[0]))
    moved = pipeline(sample)
    torch.manual_seed(0)
    torch.rand(1)  # of the flip
    expected = learned()(v2.functional.horizontal_flip(sample["image"]), noise=learned().draw())
    torch.testing.assert_close(moved["image"], expected.double())
    assert type(moved["boxes"]) is tv_tensors.BoundingBoxes
    picture = Image.fromarray((IMAGES[0] * 255).to(torch.uint8).permute(1, 2, 0).numpy())
    assert pipeline(picture, 5)[1] == 5
    assert pipeline(IMAGES[0]).shape == SHAPE
    assert pipeline(IMAGES).shape == IMAGES.shape


def test_it_is_one_of_kornias() -> None:
    transform = native_transform(learned(), "kornia")
    pipeline = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=1.0),
        transform,
        data_keys=["input", "mask", "bbox_xyxy", "keypoints"],
    )
    masks = MASK.expand(4, 1, -1, -1).float()
    boxes, points = torch.tensor([[BOX]]).repeat(4, 1, 1), torch.tensor([[POINT]]).repeat(4, 1, 1)
    images, moved_masks, moved_boxes, moved_points = pipeline(IMAGES, masks, boxes, points)
    noise = transform._params["noise"]
    assert len({tuple(row) for row in noise.tolist()}) == 4
    seen = affine()(IMAGES.flip(-1), noise[:, None])[:, 0].detach()
    torch.testing.assert_close(images, seen, rtol=0, atol=1e-5)
    for i, e in enumerate(noise):
        assert torch.equal(moved_masks[i, 0], learned().transform_masks(masks[i, 0].flip(-1), e))
        flipped = torch.tensor([[WIDTH - 1 - POINT[0], POINT[1]]])
        expected = learned().transform_points(flipped, e, SIZE)
        torch.testing.assert_close(moved_points[i], expected, rtol=0, atol=1e-4)
        # kornia's containers take the corners of a box as key points.
        left, right = WIDTH - 1 - BOX[2], WIDTH - 1 - BOX[0]
        corners = torch.tensor([[x, y] for x in (left, right) for y in (BOX[1], BOX[3])])
        around = learned().transform_points(corners, e, SIZE)
        expected = torch.cat([around.amin(0), around.amax(0)])
        torch.testing.assert_close(moved_boxes[i, 0], expected, rtol=0, atol=1e-4)


def test_kornias_own_options_hold() -> None:
    alike = native_transform(learned(), "kornia", same_on_batch=True, keepdim=True)
    moved = alike(IMAGES[:1].expand(4, -1, -1, -1))
    assert all(torch.equal(image, moved[0]) for image in moved)
    assert alike(IMAGES[0]).shape == SHAPE
    never = native_transform(learned(), "kornia", p=0.0)
    assert torch.equal(never(IMAGES), IMAGES)
    replayed = native_transform(learned(), "kornia")
    first = replayed(IMAGES)
    assert torch.equal(replayed(IMAGES, params=replayed._params), first)
    assert native_transform(learned(), "kornia")(IMAGES[:0]).shape == (0, *SHAPE)


class Swirl(lila.Augmentation):
    """Says that points move along parabolas."""

    noise_dim = 1

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x.unsqueeze(1).expand(-1, noise.shape[1], -1, -1, -1)

    def move_points(self, points: Tensor, noise: Tensor, shape: tuple[int, ...]) -> Tensor:
        return torch.stack([points[:, 0], points[:, 1] + points[:, 0] ** 2], 1)


def test_kornia_refuses_annotations_of_a_map_that_is_not_affine() -> None:
    swirl = native_transform(lila.LearnedTransform(Swirl(), lila.InputFormat(SHAPE)), "kornia")
    pipeline = kornia.augmentation.AugmentationSequential(swirl, data_keys=["input", "keypoints"])
    with pytest.raises(lila.ArgumentError, match="Swirl is not affine"):
        pipeline(IMAGES, torch.rand(4, 1, 2))
    assert torch.equal(swirl(IMAGES), IMAGES)


def test_it_is_one_of_albumentations() -> None:
    transform = native_transform(learned(), "albumentations")
    pipeline = albumentations.Compose(
        [albumentations.HorizontalFlip(p=1.0), transform],
        bbox_params=albumentations.BboxParams(format="pascal_voc", label_fields=["labels"]),
        keypoint_params=albumentations.KeypointParams(format="xyas", remove_invisible=False, angle_in_degrees=False),
    )
    image = IMAGES[0].permute(1, 2, 0).numpy().copy()
    turned = (*POINT, 0.0, 2.0)
    given = {"image": image, "mask": MASK.numpy().copy(), "bboxes": [BOX], "labels": [3], "keypoints": [turned]}
    moved = pipeline(**given)
    noise = transform.params["noise"]
    flipped = torch.from_numpy(image).permute(2, 0, 1).flip(-1)
    seen = affine()(flipped[None], noise[None, None])[0, 0].detach()
    torch.testing.assert_close(torch.from_numpy(moved["image"]).permute(2, 0, 1), seen, rtol=0, atol=1e-5)
    mask = learned().transform_masks(MASK.flip(-1), noise)
    assert np.array_equal(moved["mask"], mask.numpy())
    box = learned().transform_boxes(torch.tensor([[WIDTH - BOX[2], BOX[1], WIDTH - BOX[0], BOX[3]]]), noise, SIZE)
    limits = torch.tensor([WIDTH, HEIGHT] * 2)
    np.testing.assert_allclose(moved["bboxes"][0], box[0].clamp(min=0).minimum(limits), atol=1e-4)
    assert moved["labels"] == [3]
    start = torch.tensor([[WIDTH - 1 - POINT[0], POINT[1]], [WIDTH - 2 - POINT[0], POINT[1]]])
    ends = learned().transform_points(start, noise, SIZE)  # of an arrow to the left, as the flip made it
    x, y, angle, scale = moved["keypoints"][0]
    np.testing.assert_allclose([x, y], ends[0], atol=1e-4)
    np.testing.assert_allclose(
        [np.cos(angle), np.sin(angle)], (ends[1] - ends[0]) / (ends[1] - ends[0]).norm(), atol=1e-4
    )
    stretches = torch.linalg.svdvals(affine().elements(noise[None, None])[0, 0, :2, :2].detach())
    np.testing.assert_allclose(scale, 2 * stretches[0], rtol=1e-4)


def test_albumentations_takes_bytes_grey_images_and_a_probability() -> None:
    transform = lila.LearnedTransform(affine(), lila.InputFormat((1, *SIZE)))
    grey = (spot(10, 8)[0] * 255).to(torch.uint8).numpy()
    native = native_transform(transform, "albumentations")
    moved = albumentations.Compose([native])(image=grey)["image"]
    assert (moved.dtype, moved.shape) == (np.uint8, SIZE)
    expected = transform(torch.from_numpy(grey)[None], noise=native.params["noise"])[0]
    assert np.array_equal(moved, expected.numpy())
    written = albumentations.to_dict(albumentations.Compose([native]))
    again = albumentations.from_dict(written, nonserializable={"lila": native})
    assert again.transforms[0] is native
    never = native_transform(transform, "albumentations", p=0.0)
    assert np.array_equal(albumentations.Compose([never])(image=grey)["image"], grey)
