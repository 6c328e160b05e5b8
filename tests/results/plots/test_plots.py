"""Pictures show what they are said to show: lines, bars and arrows are where the numbers are."""

from dataclasses import replace
from itertools import pairwise
from math import pi
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

import lila
from cases import Gamma
from lila.data.toy import arcs
from lila.laplace.terms import Terms
from lila.results.plots import plot_evidence, plot_flow, plot_plane, plot_ranges, plot_samples, plot_trajectories
from lila.results.plots.plane import grid
from lila.results.plots.style import new_figure, save

NAMES = ("x-translation", "y-translation", "rotation", "x-scale", "y-scale", "shear")


def history(epochs: int = 3) -> list[lila.EpochRecord]:
    return [
        lila.EpochRecord(
            epoch=epoch,
            loss=0.5,
            ranges={name: epoch * (i + 1) / 10 for i, name in enumerate(NAMES)},
            evidence=Terms(log_likelihood=-1000.0, weight_penalty=-500.0, occam_factor=-1500.0),
        )
        for epoch in range(1, epochs + 1)
    ]


@pytest.fixture
def axes() -> Any:
    return Figure().subplots()


def test_a_line_per_range_and_the_truth_dashed(axes: Any) -> None:
    plot_trajectories(axes, history(), {"rotation": 1.5})
    lines = [line.get_ydata() for line in axes.lines]
    assert [list(line) for line in lines[:6]] == [pytest.approx([0.1 * k, 0.2 * k, 0.3 * k]) for k in range(1, 7)]
    assert sorted(float(line[0]) for line in lines[6:]) == [0, 1.5]  # one dashed line at zero stands for five
    assert {text.get_text() for text in axes.texts} == set(NAMES)


def test_labels_do_not_overlap(axes: Any) -> None:
    flat = [replace(record, ranges=dict.fromkeys(NAMES, 0.0)) for record in history()]
    plot_trajectories(axes, flat)
    heights = sorted(text.xyann[1] for text in axes.texts)
    assert min(b - a for a, b in pairwise(heights)) > 0.05


def test_lines_that_leave_the_picture_keep_their_labels_inside(axes: Any) -> None:
    plot_trajectories(axes, history(), top=0.5)  # four of six end above
    heights = [text.xyann[1] for text in axes.texts]
    assert max(heights) <= 1
    assert axes.get_ylim()[1] == 0.5


def test_evidence_is_the_sum_of_fit_and_complexity(axes: Any) -> None:
    plot_evidence(axes, [lila.EpochRecord(epoch=1, loss=0.5), *history()])
    value, fit, complexity = (list(line.get_ydata()) for line in axes.lines)
    assert (value, fit, complexity) == ([-3000] * 3, [-1000] * 3, [-2000] * 3)


def test_the_ticks_of_the_evidence_are_nats_as_in_the_tables(axes: Any) -> None:
    plot_evidence(axes, history())
    axes.figure.draw_without_rendering()
    ticks = {
        float(tick): label.get_text() for tick, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
    }
    assert ticks[-2000.0].replace("−", "-") == "-2,000"  # which sign it is depends on Matplotlib's version
    assert axes.get_ylabel().startswith("nats")


def test_without_hyper_steps_that_is_said(axes: Any) -> None:
    plot_evidence(axes, [lila.EpochRecord(epoch=1, loss=0.5)])
    assert axes.texts[0].get_text() == "no hyper-step was made"


@pytest.mark.filterwarnings("error")
def test_a_single_epoch_can_be_drawn(axes: Any) -> None:
    plot_trajectories(axes, history(1))
    plot_evidence(Figure().subplots(), history(1))


def test_bars_are_means_over_runs(axes: Any) -> None:
    plot_ranges(axes, [{"rotation": 1.0, "shear": 0.0}, {"rotation": 2.0, "shear": 0.5}], {"rotation": pi / 2})
    assert [bar.get_height() for bar in axes.patches] == [1.5, 0.25]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["rotation", "shear"]


@pytest.mark.parametrize(
    ("name", "reach", "expected"),
    [
        ("x-translation", 0.5, lambda p, eps: torch.tensor([0.5 * eps * 10, 0.0]).expand_as(p)),
        ("rotation", pi, lambda p, eps: p @ rotation(pi * eps).mT - p),
        ("y-scale", 0.7, lambda p, eps: p * torch.tensor([1.0, float(torch.tensor(0.7 * eps).exp())]) - p),
    ],
)
def test_arrows_end_where_pixels_go(axes: Any, name: str, reach: float, expected: Any) -> None:
    """On an image of 16 x 20 pixels, whose longer half side, 10 pixels, is the unit."""
    augmentation = lila.Affine2d([name], init=reach)
    plot_flow(axes, augmentation, (1, 16, 20), seed=3)
    (arrows,) = axes.collections
    starts = torch.tensor(arrows.XY, dtype=torch.float64)
    steps = torch.stack([torch.tensor(arrows.U), torch.tensor(arrows.V)], dim=1).double()
    eps = float(lila.Draw(3).uniform(torch.zeros(1, dtype=torch.long), (1, 1), torch.float32))
    assert eps != 0
    torch.testing.assert_close(steps, expected(starts.float(), eps).double(), rtol=1e-4, atol=1e-4)
    assert starts[:, 0].abs().max() < 10
    assert starts[:, 1].abs().max() < 8


def rotation(angle: float) -> torch.Tensor:
    c, s = torch.tensor(angle).cos(), torch.tensor(angle).sin()
    return torch.stack([torch.stack([c, -s]), torch.stack([s, c])])


def test_the_arrows_agree_with_the_warp() -> None:
    """A bright pixel is found where its arrow points."""
    augmentation = lila.Affine2d(init=[0.3, 0.2, 0.8, 0.1, 0.1, 0.1])
    axes: Any = Figure().subplots()
    side = 41
    plot_flow(axes, augmentation, (1, side, side), seed=1, arrows=side)
    (arrows,) = axes.collections
    place = torch.tensor([5.0, -3.0], dtype=torch.float64)  # in pixels from the middle
    at = (torch.tensor(arrows.XY, dtype=torch.float64) - place).norm(dim=1).argmin()
    image = torch.zeros(1, 1, side, side)
    image[0, 0, 20 - 4 : 20 - 1, 20 + 4 : 20 + 7] = 1
    noise = lila.Draw(1).uniform(torch.zeros(1, dtype=torch.long), (1, 6), torch.float32)
    with torch.no_grad():
        moved = augmentation(image, noise)[0, 0, 0].double()
    y, x = torch.meshgrid(torch.arange(side) - 20.0, torch.arange(side) - 20.0, indexing="ij")
    centre = torch.stack([(x * moved).sum(), (y * moved).sum()]) / moved.sum()
    step = torch.tensor([float(arrows.U[at]), float(arrows.V[at])], dtype=torch.float64)
    torch.testing.assert_close(centre, place + step, rtol=0, atol=0.2)


@pytest.mark.parametrize(("family", "shape"), [(Gamma(), (1, 8, 8)), (lila.Rotation2d(init=1.0), (2,))])
def test_a_family_that_moves_no_pixels_has_no_arrows(axes: Any, family: lila.Augmentation, shape: Any) -> None:
    with pytest.raises(lila.ArgumentError, match=f"{type(family).__name__} has no picture of arrows"):
        plot_flow(axes, family, shape)


def test_the_axis_of_the_ranges_names_their_unit(axes: Any) -> None:
    plot_trajectories(axes, history())
    assert axes.get_ylabel() == "range"
    plot_trajectories(axes, history(), unit=lila.Affine2d().unit)
    assert axes.get_ylabel() == "range (radians, half sides, log-scale)"


def test_samples_begin_with_the_image_itself() -> None:
    images = torch.rand(2, 1, 8, 8)
    rows = Figure().subplots(2, 3)
    plot_samples(rows.tolist(), lila.Affine2d(init=0.3), images)
    for row, image in zip(rows, images, strict=True):
        shown = [torch.tensor(axes.images[0].get_array()) for axes in row]
        torch.testing.assert_close(shown[0], image[0])
        assert all((other - image[0]).abs().max() > 0.1 for other in shown[1:])


def test_the_plane_shows_points_and_what_is_predicted_there(axes: Any, tmp_path: Path) -> None:
    data = arcs(60)
    plot_plane(axes, data, lambda points: points[:, 0].sigmoid())
    scatters = axes.collections[-2:]
    assert [len(scatter.get_offsets()) for scatter in scatters] == [30, 30]
    other = Figure().subplots()
    plot_plane(other, data, grid()[:, 0].sigmoid())
    assert len(other.collections) == len(axes.collections)
    axes.figure.savefig(tmp_path / "plane.png")


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_the_same_figure_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        figure = new_figure(3, 2)
        plot_trajectories(figure.subplots(), history())
        save(figure, tmp_path / name, kind)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
