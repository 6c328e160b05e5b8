"""The script of a report transforms images and time series as lila does."""

from pathlib import Path
from typing import Any

import pytest
import torch

import lila
from lila.augment.base import FIRST_OUTCOME
from lila.data.task import Scaling
from lila.results import report
from lila.results.report.explorer import explorer
from reports import made_up_sheet

TEMPLATES = Path(report.__file__).parent / "templates"
GREY, COLOURED = Scaling((0.0,), (1.0,)), Scaling((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
AFFINE = [0.3, 0.2, 1.2, 0.4, 0.3, 0.2]


def correlated() -> lila.Affine2d:
    """Ranges that are coupled, of fewer directions than coefficients."""
    augmentation = lila.Affine2d(["rotation", "x-scale", "y-scale"], correlated=True, rank=2, padding="reflection")
    with torch.no_grad():
        augmentation.eta.copy_(torch.tensor([[0.5, 0.1], [0.3, -0.2], [0.2, 0.4]]))
    return augmentation


def off_centre() -> lila.Affine2d:
    """Ranges that are not symmetric about zero."""
    augmentation = lila.Affine2d(["x-translation", "rotation"], init=[0.3, 0.8], padding="border", offset=True)
    with torch.no_grad():
        augmentation.get_parameter("centre").copy_(torch.tensor([0.4, -0.5]))
    return augmentation


def colour(scaling: Scaling, generators: list[str] | None = None) -> lila.Colour:
    """Changes of colours of pixels that were scaled."""
    return lila.Colour(generators, init=0.4, mean=scaling.mean, std=scaling.std)


CASES = {
    "affine, zeros outside": (lila.Affine2d(init=AFFINE), (3, 9, 9), COLOURED),
    "affine, wide images": (lila.Affine2d(init=AFFINE), (1, 6, 10), GREY),
    "correlated, reflected": (correlated(), (1, 8, 8), GREY),
    "off-centre, border": (off_centre(), (1, 8, 8), GREY),
    "colour": (colour(COLOURED, ["brightness", "contrast", "saturation", "hue", "gamma"]), (3, 6, 6), COLOURED),
    "channels": (colour(COLOURED, ["red", "green", "blue"]), (3, 6, 6), COLOURED),
    "grey levels": (colour(GREY, ["brightness", "contrast", "gamma"]), (1, 6, 6), GREY),
    "several": (
        lila.Compose(
            lila.HorizontalFlip(0.4), lila.Affine2d(init=AFFINE), lila.VerticalFlip(0.5), lila.QuarterTurns(0.2)
        ),
        (1, 8, 8),
        GREY,
    ),
    "series": (lila.TimeSeries(init=0.2), (2, 20), Scaling((0.5, -1.0), (2.0, 0.5))),
    "series, zeros": (lila.TimeSeries(["warp", "shift"], padding="zeros", init=0.2), (1, 20), GREY),
}


def test_the_script_transforms_as_lila_does(browser: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    sheets, noises = [], []
    for augmentation, shape, scaling in CASES.values():
        pixels = torch.randint(256, (2, *shape), generator=generator) / 255  # as exactly as a picture holds them
        sheets.append(made_up_sheet(augmentation, scaling(pixels), scaling))
        noises.append(2 * torch.rand(2, 3, augmentation.noise_dim, generator=generator) - 1)
    for dimension, outcome in ((0, 1), (7, 0), (8, 3)):  # of the flips and turns, some are asked for
        noises[list(CASES).index("several")][0, 0, dimension] = FIRST_OUTCOME + outcome
    page = browser.new_page()
    for name in ("transform.js", "explorer.js"):
        page.add_script_tag(path=TEMPLATES / name)
    moved = page.evaluate(
        """([cases, noises]) => Promise.all(cases.map(async (described, i) => {
            const inputs = described.kind === "series" ? readSeries(described) : await readImages(described);
            return inputs.map((input, n) => noises[i][n].map(noise => [...transformed(input, described, noise).data]));
        }))""",
        [[explorer(sheet) for sheet in sheets], [noise.tolist() for noise in noises]],
    )
    for name, sheet, noise, found in zip(CASES, sheets, noises, moved, strict=True):
        assert sheet.images is not None
        with torch.no_grad():
            views = sheet.augmentation(sheet.images, noise)
        assert sheet.scaling is not None
        wanted = views if sheet.of_series else sheet.scaling.undo(views.flatten(0, 1)).unflatten(0, views.shape[:2])
        off = (torch.tensor(found).view_as(wanted) - wanted).abs().max()
        assert off < 2e-4, f"{name} is off by {off}"


def test_sliders_follow_the_largest_range_first_and_tell_it_in_its_unit() -> None:
    sheet = made_up_sheet(lila.Affine2d(["x-translation", "rotation"], init=[0.1, 1.5]), torch.rand(2, 1, 8, 8))
    given = explorer(sheet)
    assert given is not None
    rotation, shift = given["sliders"]
    assert rotation["label"] == "rotation"
    assert rotation["direction"] == [0.0, 1.0]
    assert (rotation["texts"][0], rotation["texts"][-1]) == ("-85.9°", "+85.9°")
    assert (shift["range"], shift["texts"][-1]) == ("±0.40 px", "+0.40 px")
    off = explorer(made_up_sheet(off_centre(), torch.rand(2, 1, 8, 8)))
    assert off is not None
    assert not off["centred"]
    assert [slider["texts"][20] for slider in off["sliders"]] == ["+1.60 px", "-28.6°"]


def test_large_images_are_reduced_and_few() -> None:
    large = made_up_sheet(lila.Affine2d(), torch.rand(24, 3, 200, 100), Scaling((0.5,) * 3, (0.2,) * 3))
    given = explorer(large)
    assert given is not None
    assert (given["height"], given["width"], given["reduced"]) == (96, 48, True)
    assert len(given["picture"]) < 600_000  # of noise, which no picture can hold in fewer bytes
    assert given["outside"] == pytest.approx([0.5] * 3)


def test_colours_that_were_scaled_otherwise_are_left_to_pictures() -> None:
    assert explorer(made_up_sheet(colour(COLOURED), torch.rand(2, 3, 8, 8), GREY)) is None
    assert explorer(made_up_sheet(lila.Rotation2d(init=1.0))) is None
