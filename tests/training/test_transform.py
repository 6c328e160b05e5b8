"""The learned augmentation of a run as a transform."""

from pathlib import Path

import albumentations
import kornia.augmentation
import pytest
import torch
from test_fit import data, run

import lila
from lila.augment.noise import Draw
from lila.data.image_files import ImageFiles, image_paths
from lila.data.images import ImageSet


def test_the_transform_of_a_run_gives_the_images_that_training_saw() -> None:
    made, (x, _) = run(), data()
    noise = made.model.draw(Draw(made.settings.seed, 0), torch.arange(len(x)), x.dtype)  # of the first epoch
    seen = made.model.views(x, noise).unflatten(0, noise.shape[:2])
    transform = made.transform()
    assert isinstance(transform, lila.LearnedTransform)
    for i in range(made.model.samples):
        torch.testing.assert_close(transform(x, noise=noise[:, i]), seen[:, i].detach(), rtol=0, atol=1e-4)
    assert any(p.requires_grad for p in made.model.augmentation.parameters())


def test_a_run_of_the_command_line_knows_how_its_pixels_were_scaled(
    trained: Path, photos: Path, tmp_path: Path
) -> None:
    loaded = lila.load(trained)
    assert loaded.task is not None
    assert loaded.task.scaling.mean != (0.0, 0.0, 0.0)
    paths = tuple(image_paths(photos))[:4]
    pixels = ImageSet(ImageFiles(paths, 3, (8, 8), False), torch.zeros(4, dtype=torch.int64)).images(torch.arange(4))
    noise = loaded.transform().draw(4)
    seen = loaded.model.augmentation(loaded.task.scaling(pixels), noise[:, None])[:, 0].detach()
    torch.testing.assert_close(loaded.task.scaling(loaded.transform()(pixels, noise=noise)), seen, rtol=0, atol=1e-4)
    given = loaded.transform(inputs=lila.InputFormat(loaded.shape))  # for pixels that are scaled already
    torch.testing.assert_close(given(loaded.task.scaling(pixels), noise=noise), seen, rtol=0, atol=1e-4)
    loaded.save(tmp_path)
    assert lila.load(tmp_path).input_format == loaded.input_format


def test_a_run_gives_transforms_of_other_libraries() -> None:
    made = run()
    assert isinstance(made.transform("kornia", p=0.5), kornia.augmentation.GeometricAugmentationBase2D)
    assert isinstance(made.transform("albumentations"), albumentations.DualTransform)
    with pytest.raises(lila.ArgumentError, match="name the library"):
        made.transform(p=0.5)  # type: ignore[call-overload]
    with pytest.raises(lila.ArgumentError, match="not averaged over transformations"):
        run("non-invariant").transform()
