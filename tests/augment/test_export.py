"""The exported parameters mean in other libraries what they mean here: images warped by both are compared."""

import json
import sys
from collections.abc import Callable
from math import exp, log, pi
from types import ModuleType
from typing import Any

import albumentations
import cv2
import kornia
import numpy as np
import pytest
import torch
from torch import Tensor

import lila
from lila.augment import InputFormat, Padding, warp
from lila.augment.export.code import affine_code
from lila.augment.export.parameters import affine_parameters

HEIGHT, WIDTH = 24, 32
INPUTS = InputFormat((1, HEIGHT, WIDTH))
RANGES = {
    "x-translation": 0.25,  # whole pixels, to which albumentations rounds
    "y-translation": 0.125,
    "rotation": pi / 5,
    "x-scale": log(1.5),
    "y-scale": log(1.3),
    "shear": 0.2,
}


def picture(height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """A smooth bright spot off the centre, with nothing near the edges."""
    y, x = torch.meshgrid(torch.arange(height) - 10.0, torch.arange(width) - 17.0, indexing="ij")
    return torch.exp(-(x**2 + 2 * y**2 + 0.5 * x * y) / 18)[None]


def ours(name: str, end: int) -> Tensor:
    """The picture moved along one generator to the end of its range."""
    family = lila.Affine2d([name], init=RANGES[name])
    moved: Tensor = family(picture()[None], torch.full((1, 1, 1), float(end)))
    return moved[0, 0].detach()


def by_torchvision(angle: float, shift: tuple[float, float], scale: tuple[float, float], shear: float) -> Tensor:
    # Without its compiled operators, which have nothing to do with transformations, it would not import.
    sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
    from torchvision.transforms import functional

    assert scale[0] == scale[1]
    bilinear = functional.InterpolationMode.BILINEAR
    result: Tensor = functional.affine(picture(), angle, list(shift), scale[0], [shear, 0.0], interpolation=bilinear)
    return result


def by_kornia(angle: float, shift: tuple[float, float], scale: tuple[float, float], shear: float) -> Tensor:
    transform = kornia.augmentation.RandomAffine(degrees=1.0, align_corners=False, p=1.0)
    parameters = {
        "translations": torch.tensor([shift]),
        "center": torch.tensor([[(WIDTH - 1) / 2, (HEIGHT - 1) / 2]]),
        "scale": torch.tensor([scale]),
        "angle": torch.tensor([angle]),
        "shear_x": torch.tensor([shear]),
        "shear_y": torch.tensor([0.0]),
        "batch_prob": torch.tensor([1.0]),
        "forward_input_shape": torch.tensor([1, 1, HEIGHT, WIDTH]),
    }
    return transform(picture()[None], params=parameters)[0]


def by_albumentations(angle: float, shift: tuple[float, float], scale: tuple[float, float], shear: float) -> Tensor:
    transform = albumentations.Affine(
        rotate=(angle, angle),
        translate_percent={
            axis: (s / side, s / side) for axis, s, side in zip("xy", shift, (WIDTH, HEIGHT), strict=True)
        },
        scale={"x": (scale[0], scale[0]), "y": (scale[1], scale[1])},
        shear={"x": (shear, shear), "y": (0.0, 0.0)},
        interpolation=cv2.INTER_LINEAR,
        border_mode=cv2.BORDER_CONSTANT,
        p=1.0,
    )
    return torch.from_numpy(transform(image=picture()[0, :, :, None].numpy())["image"])[None, :, :, 0]


LIBRARIES: dict[str, Callable[[float, tuple[float, float], tuple[float, float], float], Tensor]] = {
    "torchvision": by_torchvision,
    "kornia": by_kornia,
    "albumentations": by_albumentations,
}


def theirs(library: str, name: str, end: int) -> Tensor:
    """The picture moved by another library with the exported parameter at the end of its interval."""
    affine = affine_parameters({name: RANGES[name]}, INPUTS)
    shift = end * affine.translate[0] * WIDTH, end * affine.translate[1] * HEIGHT
    scale = affine.scale_x[end > 0], affine.scale_y[end > 0]
    return LIBRARIES[library](end * affine.degrees, shift, scale, end * affine.shear)


def assert_same_picture(one: Tensor, two: Tensor) -> None:
    assert one.shape == two.shape
    assert float((one - two).abs().max()) < 0.02  # libraries round coordinates, to 1/32 of a pixel in OpenCV
    assert float(one.max()) > 0.5


RIGID = ("x-translation", "y-translation", "rotation")


@pytest.mark.parametrize("end", [-1, 1])
@pytest.mark.parametrize(
    ("library", "name"),
    [
        *(("torchvision", name) for name in RIGID),  # it scales both axes alike: see below
        *((library, name) for library in ("kornia", "albumentations") for name in (*RIGID, "x-scale", "y-scale")),
    ],
)
def test_one_generator_at_the_end_of_its_range_is_the_same_map(library: str, name: str, end: int) -> None:
    # Whether a positive angle is clockwise differs, but the interval is symmetric.
    flip = -1 if name == "rotation" and library == "albumentations" else 1
    assert_same_picture(theirs(library, name, flip * end), ours(name, end))


def test_torchvisions_scale_is_that_of_both_axes() -> None:
    moved = lila.Affine2d(["x-scale", "y-scale"], init=log(1.4))(picture()[None], torch.ones(1, 1, 2))[0, 0].detach()
    assert_same_picture(by_torchvision(0.0, (0.0, 0.0), (1.4, 1.4), 0.0), moved)
    affine = affine_parameters({"x-scale": log(1.2), "y-scale": log(1.5)}, INPUTS)
    (scale,) = [line for line in affine_code("torchvision", affine).splitlines() if "scale=" in line]
    assert f"({1 / 1.8**0.5:.4f}, {1.8**0.5:.4f})" in scale


@pytest.mark.parametrize("end", [-1, 1])
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_shear_along_x_has_the_stretches_of_the_symmetric_one(library: str, end: int) -> None:
    affine = affine_parameters({"shear": RANGES["shear"]}, INPUTS)
    gamma = float(np.tan(np.radians(affine.shear)))
    stretches = np.linalg.svd(np.array([[1, gamma], [0, 1]]), compute_uv=False)
    np.testing.assert_allclose(stretches, [exp(RANGES["shear"]), exp(-RANGES["shear"])])
    pictures = []
    for sign in (-1, 1):  # which way a positive shear goes differs, but the interval is symmetric
        inverse = torch.tensor([[1.0, -sign * gamma, 0], [0, 1, 0], [0, 0, 1]])
        pictures.append(warp(picture()[None], inverse[None, None], Padding.ZEROS)[0, 0])
    found = theirs(library, "shear", end)
    assert min(float((found - expected).abs().max()) for expected in pictures) < 0.02


def defined(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["transform"]


def test_the_code_for_torch_is_the_learned_distribution_itself() -> None:
    family = lila.Affine2d(init=list(RANGES.values()), padding="reflection")
    noise = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    images = picture().expand(4, 1, HEIGHT, WIDTH)
    transform = defined(family.export("torch", INPUTS))
    torch.testing.assert_close(
        transform(images, noise), family(images, noise[:, None])[:, 0].detach(), rtol=0, atol=1e-4
    )
    assert transform(picture()).shape == (1, HEIGHT, WIDTH)


def test_the_code_for_kornia_and_albumentations_runs_and_normalises_as_the_run_did() -> None:
    still, colour = lila.Affine2d(), InputFormat((3, HEIGHT, WIDTH), mean=(0.2, 0.3, 0.4), std=(0.5, 0.6, 0.7))
    image = picture().expand(3, HEIGHT, WIDTH)
    expected = (image - torch.tensor(colour.mean)[:, None, None]) / torch.tensor(colour.std)[:, None, None]
    found = defined(still.export("kornia", colour))(image[None])[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    pixels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    normalised = defined(still.export("albumentations", colour))(image=pixels)["image"]
    torch.testing.assert_close(torch.from_numpy(normalised).permute(2, 0, 1), expected, rtol=0, atol=0.005)
    moving = lila.Affine2d(init=list(RANGES.values()), padding="border")
    assert defined(moving.export("kornia", INPUTS))(picture()[None]).shape == (1, 1, HEIGHT, WIDTH)
    assert defined(moving.export("albumentations", INPUTS))(image=pixels[..., :1])["image"].shape[:2] == (24, 32)


@pytest.mark.parametrize("padding", ["border", "reflection"])
@pytest.mark.parametrize("name", RIGID)
def test_torchvision_pads_first_and_cuts_out_the_middle_afterwards(
    padding: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = lila.Affine2d([name], init=RANGES[name], padding=padding)
    inputs = InputFormat((1, HEIGHT, WIDTH), mean=(0.2,), std=(0.5,))
    image = torch.rand(1, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(4))
    image = torch.nn.functional.avg_pool2d(image[None], 5, stride=1, padding=2)[0]  # smooth, and grey at the edges
    by_torchvision(0.0, (0.0, 0.0), (1.0, 1.0), 0.0)  # makes it importable
    names: dict[str, Any] = {}
    exec(family.export("torchvision", inputs), names)
    moves, (_, normalise, move) = names["affine"], names["transform"].transforms
    sides = 3 * WIDTH, 3 * HEIGHT  # of the padded image; the ends of the intervals are drawn
    shift = [round(share * side) for share, side in zip(moves.translate, sides, strict=True)]
    drawn = moves.degrees[1], shift, moves.scale[1], (0.0, 0.0)
    monkeypatch.setattr(moves, "get_params", lambda *_: drawn)
    expected = family((image[None] - 0.2) / 0.5, torch.ones(1, 1, 1))[0, 0].detach()
    assert float((move(normalise(image)) - expected).abs().max()) < 0.02
    assert move(torch.rand(3, 40, 50)).shape == (3, 40, 50)  # images of another size keep it


def test_every_target_names_its_parameters() -> None:
    family = lila.Affine2d(init=list(RANGES.values()))
    assert list(family.exporters()) == ["torch", "torchvision", "kornia", "albumentations"]
    for library in family.exporters():
        compile(family.export(library, INPUTS), library, "exec")
    assert "degrees=36.0" in family.export("torchvision", INPUTS)
    with pytest.raises(lila.ArgumentError, match="cannot be exported to 'tensorflow'; choose one of 'torch'"):
        family.export("tensorflow", INPUTS)
    record = json.loads(json.dumps(family.export_json(INPUTS)))
    assert record["ranges"] == pytest.approx(RANGES)
    assert record["generators"]["rotation"] == [[0, -1, 0], [1, 0, 0], [0, 0, 0]]
    assert record["torchvision"]["padding_mode"] == "constant"
    assert record["affine"]["translate"] == [pytest.approx(0.25 / 2), pytest.approx(0.125 * 16 / 24)]


def test_generators_of_ones_own_are_exported_to_torch_alone() -> None:
    squeeze = lila.Generator("squeeze", [[1, 0, 0], [0, -1, 0], [0, 0, 0]])
    family = lila.LieImages([squeeze], init=0.4, padding="border")
    assert list(family.exporters()) == ["torch"]
    noise = torch.tensor([[0.7]])
    moved = defined(family.export("torch", INPUTS))(picture()[None], noise)
    torch.testing.assert_close(moved, family(picture()[None], noise[:, None])[:, 0].detach(), rtol=0, atol=1e-4)
    assert family.export_json(INPUTS)["generators"]["squeeze"][1] == [0, -1, 0]


def test_a_composition_of_one_part_is_exported_as_the_part_and_of_several_to_torch_and_as_json() -> None:
    turn = lila.Affine2d(["rotation"], init=0.3, padding="reflection")
    assert lila.Compose(turn).export("kornia", INPUTS) == turn.export("kornia", INPUTS)
    both = lila.Compose(turn, lila.Affine2d(["shear"], init=0.2))
    with pytest.raises(lila.ArgumentError, match="Compose cannot be exported to 'kornia'; choose one of 'torch'"):
        both.export("kornia", INPUTS)
    noise = torch.tensor([[0.7, -0.4]])
    first, second = defined(both.export("torch", INPUTS))
    found = second(first(picture()[None], noise[:, :1]), noise[:, 1:])
    torch.testing.assert_close(found, both(picture()[None], noise[:, None])[:, 0].detach(), rtol=0, atol=1e-4)
    assert [part["ranges"].keys() for part in both.export_json(INPUTS)["parts"]] == [{"rotation"}, {"shear"}]


def test_what_has_no_ranges_or_no_code_cannot_be_exported() -> None:
    data = torch.rand(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    run = lila.fit(torch.nn.Linear(2, 2), data, method="non-invariant", epochs=1, progress="silent")
    with pytest.raises(lila.ArgumentError, match="has no ranges, so there is nothing to export"):
        run.model.augmentation.export("torch", InputFormat((2,)))
    with pytest.raises(lila.ArgumentError, match="Rotation2d has no code for other libraries"):
        lila.Rotation2d(init=0.3).export("torch", InputFormat((2,)))
    assert lila.Rotation2d(init=0.3).export_json(InputFormat((2,)))["readable_ranges"] == {"rotation": "±17.2°"}
