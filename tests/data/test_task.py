from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from written import picture, write_class_folders, write_idx_folder

import lila
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.data.task import Recipe, Scaling, load_data
from lila.data.transformed import VersionName, transformed
from lila.errors import ArgumentError


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Colour images in files: 2 classes, 6 training and 3 test images of each."""
    write_class_folders(tmp_path / "photos" / "train", count=6, shape=(8, 6, 3))
    write_class_folders(tmp_path / "photos" / "test", count=3, shape=(8, 6, 3))
    return str(tmp_path / "photos")


@pytest.fixture
def grey(tmp_path: Path) -> str:
    """Grey images in an array: 3 classes, 30 images for training and 6 for test."""
    x, y = picture(0, 36, 6, 6), np.arange(36) % 3
    np.savez(tmp_path / "grey.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    return str(tmp_path / "grey.npz")


def everything(data: Data | None, size: int = 5) -> tuple[Tensor, Tensor]:
    assert data is not None
    batches = list(Examples(data).batches(size))
    return torch.cat([batch.x for batch in batches]), torch.cat([batch.y for batch in batches])


def held(data: Data | None) -> tuple[Tensor, Tensor]:
    assert isinstance(data, tuple)
    return data


def test_a_task_is_what_the_files_hold(grey: str) -> None:
    task = load_data(Recipe(grey))
    x, y = held(task.train)
    assert torch.equal(x[:, 0], torch.from_numpy(picture(0, 36, 6, 6)[:30]).float() / 255)
    assert y.tolist() == [i % 3 for i in range(30)]
    assert len(held(task.test)[0]) == 6
    assert (task.shape, task.classes, task.examples) == ((1, 6, 6), ("0", "1", "2"), (30, 6))
    assert task.recipe == Recipe(grey)


def test_a_subset_is_of_the_training_images_only_and_follows_the_seed(grey: str) -> None:
    whole = held(load_data(Recipe(grey)).train)
    chosen = {}
    for seed in (0, 1):
        task = load_data(Recipe(grey, subset=10, seed=seed))
        x, y = held(task.train)
        assert task.examples == (10, 6)
        matches = (x[:, None] == whole[0][None]).flatten(2).all(2)
        assert matches.sum(1).tolist() == [1] * 10
        chosen[seed] = matches.int().argmax(1).tolist()
        assert len(set(chosen[seed])) == 10
        assert y.tolist() == [i % 3 for i in chosen[seed]]
    assert chosen[0] != chosen[1]
    assert chosen[0] == Draw(0).subset(30, 10).tolist()


def test_an_image_of_a_subset_is_transformed_as_it_is_in_the_whole(grey: str) -> None:
    recipe = Recipe(grey, "fully-rotated", seed=4)
    whole, some = (held(load_data(replace(recipe, subset=subset)).train)[0] for subset in (None, 10))
    torch.testing.assert_close(some, whole[Draw(4).subset(30, 10)], rtol=0, atol=1e-6)


def test_a_subset_larger_than_the_data_is_refused(grey: str) -> None:
    assert load_data(Recipe(grey, subset=30)).examples == (30, 6)
    with pytest.raises(ArgumentError, match="subset of 31 training images was asked for, but there are 30"):
        load_data(Recipe(grey, subset=31))


@pytest.mark.parametrize("scaling", ["auto", "unit"])
def test_grey_images_stay_in_the_unit_interval(grey: str, scaling: str) -> None:
    task = load_data(Recipe(grey, scaling=scaling))
    assert task.scaling == Scaling((0.0,), (1.0,))
    assert torch.equal(held(task.train)[0][:, 0], torch.from_numpy(picture(0, 36, 6, 6)[:30]).float() / 255)


@pytest.mark.parametrize("scaling", ["auto", "standard"])
def test_colour_images_are_standardised_by_channel_over_the_training_images(tmp_path: Path, scaling: str) -> None:
    # Channels of quite different brightness, and test images that are not like the training images.
    x = (picture(0, 40, 5, 5, 3) // np.array([1, 2, 8], dtype=np.uint8)).astype(np.uint8)
    np.savez(tmp_path / "colour.npz", x_train=x, y_train=np.arange(40) % 2, x_test=x[:4] // 2, y_test=np.arange(4) % 2)
    task = load_data(Recipe(str(tmp_path / "colour.npz"), scaling=scaling))
    train, _ = held(task.train)
    torch.testing.assert_close(train.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(train.std((0, 2, 3), correction=0), torch.ones(3), rtol=1e-5, atol=0)
    unit = held(load_data(Recipe(str(tmp_path / "colour.npz"), scaling="unit")).test)[0]
    torch.testing.assert_close(held(task.test)[0], task.scaling(unit))
    assert held(task.test)[0].mean() < -0.3


def test_grey_images_are_standardised_if_asked(grey: str) -> None:
    train, _ = held(load_data(Recipe(grey, scaling="standard")).train)
    assert train.mean().item() == pytest.approx(0, abs=1e-5)
    assert train.std(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_a_channel_that_is_the_same_everywhere_does_not_divide_by_zero(tmp_path: Path) -> None:
    x = np.zeros((8, 4, 4, 3), dtype=np.uint8)
    x[..., 0] = picture(0, 8, 4, 4)
    np.savez(tmp_path / "red.npz", x_train=x, y_train=np.arange(8) % 2, x_test=x, y_test=np.arange(8) % 2)
    train, _ = held(load_data(Recipe(str(tmp_path / "red.npz"))).train)
    assert train[:, 1:].abs().max() == 0
    assert train[:, 0].std() > 0.9


def test_scaling_is_written_out() -> None:
    scale = Scaling((1.0, 2.0), (2.0, 4.0))
    assert scale(torch.full((1, 2, 1, 1), 4.0)).flatten().tolist() == [1.5, 0.5]
    assert scale.undo(scale(torch.full((1, 2, 1, 1), 4.0))).flatten().tolist() == [4.0, 4.0]


def test_images_are_transformed_before_they_are_scaled(photos: str) -> None:
    """What lies outside an image is black, whatever black is scaled to."""
    task = load_data(Recipe(photos, "translated", seed=2))
    plain = held(load_data(Recipe(photos, scaling="unit")).train)[0]
    expected = task.scaling(transformed(plain, torch.arange(12), "translated", 2))
    torch.testing.assert_close(held(task.train)[0], expected)


def test_training_and_test_images_move_by_amounts_of_their_own(tmp_path: Path) -> None:
    same = np.repeat(picture(0, 1, 9, 9), 4, axis=0)
    labels = np.arange(4) % 2
    np.savez(tmp_path / "same.npz", x_train=same, y_train=labels, x_test=same, y_test=labels)
    task = load_data(Recipe(str(tmp_path / "same.npz"), "fully-rotated"))
    assert ((held(task.train)[0] - held(task.test)[0]).flatten(1).abs().amax(1) > 0.01).all()


@pytest.mark.parametrize("version", VersionName)
def test_images_in_memory_are_those_streamed_from_their_files(photos: str, version: VersionName) -> None:
    recipe = Recipe(photos, version, subset=9, size=(10, 10), seed=3)
    memory, streamed = (load_data(recipe, in_memory=in_memory) for in_memory in (True, False))
    assert isinstance(streamed.train, DataLoader)
    assert memory.scaling == streamed.scaling
    assert memory.examples == streamed.examples
    for one, other in ((memory.train, streamed.train), (memory.test, streamed.test)):
        for size in (1, 4):
            found = everything(other, size)
            assert torch.equal(found[0], held(one)[0])
            assert torch.equal(found[1], held(one)[1])


def test_processes_that_read_change_nothing(photos: str) -> None:
    recipe = Recipe(photos, "scaled")
    streamed = load_data(recipe, in_memory=False, workers=1)
    assert isinstance(streamed.test, DataLoader)
    assert streamed.test.num_workers == 1
    assert torch.equal(everything(streamed.test)[0], held(load_data(recipe, in_memory=True).test)[0])


def test_few_images_are_held_in_memory_and_too_many_are_not(photos: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(load_data(Recipe(photos)).train, tuple)
    monkeypatch.setattr("lila.data.task.available_bytes", lambda device: 4 * 4 * 18 * 3 * 8 * 6)
    assert isinstance(load_data(Recipe(photos)).train, DataLoader)
    monkeypatch.setattr("lila.data.task.available_bytes", lambda device: 4 * 4 * 18 * 3 * 8 * 6 + 4)
    assert isinstance(load_data(Recipe(photos)).train, tuple)


def test_streamed_and_held_images_train_alike(photos: str) -> None:
    runs = []
    for in_memory in (True, False):
        task = load_data(Recipe(photos, "partially-rotated"), in_memory=in_memory)
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 6, 4), nn.Tanh(), nn.Linear(4, 2))
        changes: dict[str, Any] = {"epochs": 1, "burn_in": 0, "batch_size": 5, "samples": 2, "microbatch": 4}
        augmentation = lila.Affine2d(["rotation"])
        runs.append(lila.fit(net, task.train, augmentation, test=task.test, progress="silent", **changes))
    for one, other in zip(runs[0].model.parameters(), runs[1].model.parameters(), strict=True):
        assert torch.equal(one, other)
    for name in ("loss", "evidence", "ranges"):
        assert getattr(runs[0].history[0], name) == getattr(runs[1].history[0], name)
    assert next(iter(runs[1].model.augmentation.ranges.values())) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transform": "sheared"}, "no transformed version named 'sheared'"),
        ({"scaling": "none"}, "no scaling named 'none'"),
        ({"subset": 0}, "subset must be a whole number of at least 1"),
        ({"size": (0, 3)}, "size must be a whole number of at least 1"),
    ],
)
def test_a_recipe_is_checked_when_it_is_made(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Recipe("digits", **change)


def test_the_data_directory_may_be_text(tmp_path: Path) -> None:
    write_idx_folder(tmp_path / "mnist", train=6)
    assert load_data(Recipe("mnist"), str(tmp_path)).examples[0] == 6
