import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image
from torch import Tensor
from written import picture, write_image

from lila.data.image_files import ImageFiles, image_paths, look_at_images, read_image
from lila.data.images import ImageSet, split
from lila.errors import ArgumentError, DataError


def numbered(labels: list[int]) -> ImageSet:
    """Images whose only pixel is their number."""
    return ImageSet(torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None], torch.tensor(labels))


def numbers(images: ImageSet) -> list[int]:
    assert isinstance(images.pixels, Tensor)
    return images.pixels.flatten().tolist()


def test_a_grey_image_is_read_as_it_was_written(tmp_path: Path) -> None:
    pixels = picture(0, 3, 5)
    write_image(tmp_path / "a.png", pixels)
    found = read_image(tmp_path / "a.png", 1, (3, 5), resize=False)
    assert found.dtype == torch.uint8
    assert np.array_equal(found.numpy(), pixels[None])


def test_a_colour_image_has_its_channels_first(tmp_path: Path) -> None:
    pixels = picture(0, 3, 5, 3)
    write_image(tmp_path / "a.png", pixels)
    found = read_image(tmp_path / "a.png", 3, (3, 5), resize=False)
    assert np.array_equal(found.numpy(), pixels.transpose(2, 0, 1))


def test_a_grey_image_among_colour_ones_has_three_like_channels(tmp_path: Path) -> None:
    pixels = picture(0, 3, 5)
    write_image(tmp_path / "a.png", pixels)
    assert np.array_equal(read_image(tmp_path / "a.png", 3, (3, 5), False).numpy(), np.stack([pixels] * 3))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_to_eight_and_not_clipped(tmp_path: Path, suffix: str) -> None:
    values = np.array([[0, 257, 514], [128 * 257, 65535, 300]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    assert look_at_images([tmp_path / f"a.{suffix}"])[0] == 1
    found = read_image(tmp_path / f"a.{suffix}", 1, (2, 3), resize=False)
    assert found.tolist() == [[[0, 1, 2], [128, 255, 1]]]


def test_black_and_white_images_are_black_and_white(tmp_path: Path) -> None:
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "a.png")
    assert look_at_images([tmp_path / "a.png"])[0] == 1
    assert read_image(tmp_path / "a.png", 1, (1, 2), resize=False).tolist() == [[[255, 0]]]


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png")
    assert look_at_images([tmp_path / "a.png"])[0] == 3
    assert read_image(tmp_path / "a.png", 3, (1, 2), resize=False).tolist() == [[[0, 10]], [[0, 20]], [[0, 30]]]


def test_resizing_is_to_height_and_width_in_this_order(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.full((8, 4, 3), 77, dtype=np.uint8))
    found = read_image(tmp_path / "a.png", 3, (2, 6), resize=True)
    assert found.shape == (3, 2, 6)
    assert found.unique().tolist() == [77]


def test_another_size_is_an_error_with_both_sizes_if_images_are_not_to_be_resized(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", picture(0, 8, 4))
    with pytest.raises(DataError, match=r"a\.png is 8 x 4 pixels, but 8 x 5 are wanted.*--size"):
        read_image(tmp_path / "a.png", 1, (8, 5), resize=False)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow warns of what it then raises an error for
@pytest.mark.parametrize("suffix", ["png", "jpeg", "gif", "bmp", "tiff", "webp"])
def test_an_image_that_ends_early_is_damaged_and_named_wherever_it_ends(tmp_path: Path, suffix: str) -> None:
    whole = io.BytesIO()
    Image.fromarray(picture(0, 9, 9, 3)).save(whole, suffix)
    path = tmp_path / f"cut.{suffix}"
    for length in range(0, int(0.9 * len(whole.getvalue())), 7):  # towards the end only closing marks are missing
        path.write_bytes(whole.getvalue()[:length])
        with pytest.raises(DataError) as caught:
            read_image(path, 3, (9, 9), resize=False)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    for look in (lambda: read_image(path, 1, (1, 1), True), lambda: look_at_images([path])):
        with pytest.raises(DataError, match="not an image") as caught:
            look()
        assert str(path) in str(caught.value)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png cannot be read"):
        read_image(tmp_path / "gone.png", 1, (1, 1), True)


def test_sizes_are_told_with_a_file_each(tmp_path: Path) -> None:
    for name, shape in (("a", (2, 3)), ("b", (2, 3)), ("c", (3, 2))):
        write_image(tmp_path / f"{name}.png", picture(0, *shape))
    channels, sizes = look_at_images([tmp_path / f"{name}.png" for name in "abc"])
    assert channels == 1
    assert sizes == {(2, 3): tmp_path / "a.png", (3, 2): tmp_path / "c.png"}


def test_one_colour_image_makes_all_colour(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", picture(0, 2, 2))
    write_image(tmp_path / "b.png", picture(0, 2, 2, 3))
    assert look_at_images([tmp_path / "a.png", tmp_path / "b.png"])[0] == 3


def test_images_in_files_are_those_in_memory(tmp_path: Path) -> None:
    paths = tuple(tmp_path / f"{i}.png" for i in range(4))
    for i, path in enumerate(paths):
        write_image(path, picture(i, 3, 2))
    files = ImageSet(ImageFiles(paths, 1, (3, 2), False), torch.arange(4))
    memory = ImageSet(files.pixels[torch.arange(4)], files.labels)
    assert files.shape == memory.shape == (1, 3, 2)
    some = torch.tensor([3, 0, 3])
    assert torch.equal(files.images(some), memory.images(some))
    assert torch.equal(files.take(some).images(torch.arange(3)), memory.images(some))
    assert files.take(some).labels.tolist() == memory.take(some).labels.tolist() == [3, 0, 3]


def test_taking_images_from_files_decodes_none(tmp_path: Path) -> None:
    absent = ImageSet(ImageFiles((tmp_path / "a.png", tmp_path / "b.png"), 1, (2, 2), False), torch.arange(2))
    assert len(absent.take(torch.tensor([1]))) == 1


def test_bytes_become_real_numbers_up_to_one_and_real_numbers_stay() -> None:
    images = ImageSet(torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(3, 1, 1, 1), torch.zeros(3))
    assert images.images(torch.arange(3)).flatten().tolist() == pytest.approx([0, 0.2, 1])
    real = ImageSet(torch.tensor([0.25], dtype=torch.float64).reshape(1, 1, 1, 1), torch.zeros(1))
    assert real.images(torch.tensor([0])).dtype == torch.float32
    assert real.images(torch.tensor([0])).item() == 0.25


@pytest.mark.parametrize(("share", "tests"), [(0.2, (2, 1)), (0.5, (5, 2)), (0.01, (1, 1)), (0.99, (9, 3))])
def test_a_split_takes_its_share_of_each_class_but_neither_all_nor_none(share: float, tests: tuple[int, int]) -> None:
    train, test = split(numbered([0] * 10 + [1] * 4), ["a", "b"], share, seed=3)
    assert tuple((test.labels == number).sum().item() for number in (0, 1)) == tests
    assert sorted(numbers(train) + numbers(test)) == list(range(14))
    for part in (train, test):
        assert part.labels.tolist() == [int(number >= 10) for number in numbers(part)]


def test_a_split_follows_the_seed() -> None:
    whole = numbered([0, 1] * 20)
    one, again, other = (numbers(split(whole, ["a", "b"], 0.3, seed)[1]) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_a_share_that_leaves_nothing_is_refused(share: float) -> None:
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        split(numbered([0, 0, 1, 1]), ["a", "b"], share, seed=0)


def test_a_class_of_one_image_cannot_be_split_and_is_named() -> None:
    with pytest.raises(DataError, match=r"Class 'rare' has 1 image\(s\), too few"):
        split(numbered([0, 0, 1]), ["common", "rare"], 0.5, seed=0)


def test_a_photograph_is_turned_upright_by_its_exif_orientation(tmp_path: Path) -> None:
    image = Image.new("RGB", (16, 8))
    image.paste((255, 255, 255), (0, 0, 8, 8))  # the left half is white
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # to be turned by 90 degrees clockwise: left becomes top
    image.save(tmp_path / "phone.jpg", exif=exif, quality=95)
    assert look_at_images([tmp_path / "phone.jpg"]) == (3, {(16, 8): tmp_path / "phone.jpg"})
    pixels = read_image(tmp_path / "phone.jpg", 1, (16, 8), resize=False)[0]
    assert pixels[:8].float().mean() > 250
    assert pixels[8:].float().mean() < 5


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("LA", (2, 2), (255, 128)).save(tmp_path / "half.png")
    assert read_image(tmp_path / "clear.png", 3, (2, 2), resize=False).max() == 0
    assert read_image(tmp_path / "half.png", 1, (2, 2), resize=False).tolist() == [[[128, 128], [128, 128]]]


def test_a_palette_of_greys_is_grey_and_one_of_colours_is_not(tmp_path: Path) -> None:
    for name, colours in (("grey", [0, 0, 0, 200, 200, 200]), ("colour", [0, 0, 0, 200, 0, 0])):
        image = Image.new("P", (2, 2), 1)
        image.putpalette(colours)
        image.save(tmp_path / f"{name}.png")
    assert look_at_images([tmp_path / "grey.png"])[0] == 1
    assert look_at_images([tmp_path / "colour.png"])[0] == 3
    assert read_image(tmp_path / "grey.png", 1, (2, 2), resize=False).unique().tolist() == [200]


@pytest.mark.parametrize("mode", ["F", "I"])
def test_pixels_whose_scale_is_not_known_are_refused(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (2, 2), 1).save(tmp_path / "deep.tiff")
    with pytest.raises(DataError, match=r"deep\.tiff has pixels of 32 bits"):
        read_image(tmp_path / "deep.tiff", 1, (2, 2), resize=False)


def test_hidden_files_and_folders_are_no_images(tmp_path: Path) -> None:
    for name in ("a.png", "._a.png", ".cache/b.png", "more/c.JPG"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder.png").mkdir()
    assert image_paths(tmp_path) == [tmp_path / "a.png", tmp_path / "more" / "c.JPG"]
