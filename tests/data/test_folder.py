from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from written import picture, write_class_folders, write_image

from lila.data.formats import Reading
from lila.data.formats.folder import read_folder
from lila.data.image_files import ImageFiles
from lila.data.images import ImageSet
from lila.errors import DataError


def names(images: ImageSet) -> list[str]:
    assert isinstance(images.pixels, ImageFiles)
    return [f"{path.parent.name}/{path.name}" for path in images.pixels.paths]


def pixels(images: ImageSet) -> NDArray[np.uint8]:
    found = images.pixels[torch.arange(len(images))]
    assert found.dtype == torch.uint8
    array: NDArray[np.uint8] = found.numpy()
    return array


def test_train_and_test_folders_are_read_as_they_are(tmp_path: Path) -> None:
    train = write_class_folders(tmp_path / "train", ("dog", "cat"), 3)
    test = write_class_folders(tmp_path / "test", ("cat", "dog"), 2)
    data = read_folder(tmp_path, Reading())
    assert data.classes == ("cat", "dog")
    assert names(data.train) == [f"{c}/{i:02}.png" for c in ("cat", "dog") for i in range(3)]
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.test.labels.tolist() == [0, 0, 1, 1]
    assert data.train.shape == (1, 4, 6)
    for part, written in ((data.train, train), (data.test, test)):
        assert np.array_equal(pixels(part)[:, 0], np.stack([written[name] for name in names(part)]))


def test_classes_at_once_are_split_by_class_without_overlap(tmp_path: Path) -> None:
    written = write_class_folders(tmp_path, ("a", "b", "c"), 5)
    data = read_folder(tmp_path, Reading(test_share=0.4, seed=7))
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert sorted(names(data.train) + names(data.test)) == sorted(written)
    for part in (data.train, data.test):
        assert [data.classes[label] for label in part.labels.tolist()] == [name[0] for name in names(part)]
        assert np.array_equal(pixels(part)[:, 0], np.stack([written[name] for name in names(part)]))


def test_the_split_follows_the_seed(tmp_path: Path) -> None:
    write_class_folders(tmp_path, count=12, shape=(1, 1))
    one, again, other = (names(read_folder(tmp_path, Reading(seed=seed)).test) for seed in (0, 0, 1))
    assert one == again
    assert one != other


def test_colour_images_have_three_channels(tmp_path: Path) -> None:
    written = write_class_folders(tmp_path, shape=(4, 6, 3))
    data = read_folder(tmp_path, Reading())
    assert data.train.shape == (3, 4, 6)
    first = names(data.train)[0]
    assert np.array_equal(pixels(data.train)[0], written[first].transpose(2, 0, 1))


def test_grey_and_colour_together_are_colour_in_both_parts(tmp_path: Path) -> None:
    write_class_folders(tmp_path / "train")
    write_class_folders(tmp_path / "test", shape=(4, 6, 3))
    data = read_folder(tmp_path, Reading())
    assert data.train.shape == data.test.shape == (3, 4, 6)
    assert pixels(data.train).shape == (10, 3, 4, 6)


def test_grey_images_of_sixteen_bits_are_grey(tmp_path: Path) -> None:
    for name, value in (("dark", 257), ("light", 250 * 257)):
        for i in range(2):
            write_image(tmp_path / name / f"{i}.png", np.full((2, 2), value, dtype=np.uint16))
    data = read_folder(tmp_path, Reading())
    assert data.train.shape == (1, 2, 2)
    assert pixels(data.train)[:, 0, 0, 0].tolist() == [1, 250]


def test_images_may_lie_deeper_and_have_other_endings_and_other_files_are_ignored(tmp_path: Path) -> None:
    write_class_folders(tmp_path, count=2)
    write_image(tmp_path / "cat" / "more" / "x.JPG", picture(0, 4, 6))
    write_image(tmp_path / "cat" / "y.bmp", picture(0, 4, 6))
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "README").write_text("not a class")
    (tmp_path / ".hidden").mkdir()
    data = read_folder(tmp_path, Reading())
    assert data.classes == ("cat", "dog")
    assert len(data.train) + len(data.test) == 6


def test_different_sizes_name_two_files_and_are_fine_with_a_size(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    write_image(tmp_path / "dog" / "wide.png", picture(0, 4, 9))
    with pytest.raises(DataError, match=r"00\.png is 4 x 6, .*wide\.png is 4 x 9.*--size") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path / "dog" / "wide.png") in str(caught.value)
    data = read_folder(tmp_path, Reading(size=(5, 3)))
    assert data.train.shape == data.test.shape == (1, 5, 3)
    assert pixels(data.train).shape[1:] == (1, 5, 3)


def test_different_sizes_in_train_and_test_are_found_too(tmp_path: Path) -> None:
    write_class_folders(tmp_path / "train")
    write_class_folders(tmp_path / "test", shape=(6, 4))
    with pytest.raises(DataError, match=r"train.*is 4 x 6.*test.*is 6 x 4"):
        read_folder(tmp_path, Reading())


def test_a_class_without_images_is_named(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("soon")
    with pytest.raises(DataError, match=r"holds no image") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path / "empty") in str(caught.value)


@pytest.mark.parametrize("classes", [(), ("only",)])
def test_fewer_than_two_classes_are_refused(tmp_path: Path, classes: tuple[str, ...]) -> None:
    write_class_folders(tmp_path, classes)
    with pytest.raises(DataError, match=f"two or more classes, but it holds {len(classes)}") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_an_image_is_named_before_any_is_decoded(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    (tmp_path / "dog" / "fake.jpg").write_text("<html>not found</html>")
    with pytest.raises(DataError, match="is not an image") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path / "dog" / "fake.jpg") in str(caught.value)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_truncated_image_is_named_when_it_is_decoded(tmp_path: Path, suffix: str) -> None:
    write_class_folders(tmp_path / "train", shape=(40, 40))
    write_class_folders(tmp_path / "test", shape=(40, 40))
    cut = tmp_path / "train" / "dog" / f"cut.{suffix}"
    write_image(cut, picture(0, 40, 40))
    cut.write_bytes(cut.read_bytes()[:-300])
    data = read_folder(tmp_path, Reading())
    sound = [i for i, name in enumerate(names(data.train)) if "cut" not in name]
    assert len(data.train.images(torch.tensor(sound))) == 10
    with pytest.raises(DataError, match="is damaged") as caught:
        data.train.images(torch.arange(len(data.train)))
    assert str(cut) in str(caught.value)


@pytest.mark.parametrize("there", ["train", "test"])
def test_train_without_test_and_test_without_train_are_refused(tmp_path: Path, there: str) -> None:
    write_class_folders(tmp_path / there)
    with pytest.raises(DataError, match=f"has a folder {there} but not the other") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path) in str(caught.value)


def test_classes_that_are_in_one_part_only_are_named(tmp_path: Path) -> None:
    write_class_folders(tmp_path / "train", ("cat", "dog", "eel"))
    write_class_folders(tmp_path / "test", ("cat", "dog", "fox"))
    with pytest.raises(DataError, match="in one only: eel, fox") as caught:
        read_folder(tmp_path, Reading())
    assert str(tmp_path / "train") in str(caught.value)


def test_a_class_of_one_image_cannot_be_split(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    write_image(tmp_path / "rare" / "0.png", picture(0, 4, 6))
    with pytest.raises(DataError, match="'rare' has 1 image"):
        read_folder(tmp_path, Reading())
