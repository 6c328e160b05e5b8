"""Cases of the gallery with time series."""

from pathlib import Path

import torch

from lila.augment import TimeSeries
from lila.data.formats import Reading
from lila.data.read import read
from lila.reproduce.gallery.data import Labelled, package, package_folder, transform_once
from lila.reproduce.gallery.problem import Folders, Problem, mlp

_MNIST1D_LENGTHS = (12 + 60, 40)  # of a series of mnist1d before and after it is resampled


def shifted_mnist1d(seed: int, folders: Folders) -> Problem:
    """Series of mnist1d's generator, shifted by up to 24 of its 72 steps and without its other changes."""
    generator = package("mnist1d.data", "mnist1d")
    chosen = generator.get_dataset_args()
    before, after = _MNIST1D_LENGTHS
    chosen.seed, chosen.num_samples, chosen.max_translation, chosen.padding = seed, 1000, 24, [60, 60]
    chosen.scale_coeff, chosen.shear_scale, chosen.corr_noise_scale = 0.0, 0.0, 0.05
    made = generator.make_dataset(chosen)
    # Its digits begin at the left end. All are rolled by as many steps, so that they keep clear of both ends.
    rolled = {name: torch.tensor(made[name], dtype=torch.float32).roll(10, 1).unsqueeze(1) for name in ("x", "x_test")}
    train, test = ((rolled[x], torch.tensor(made[y])) for x, y in (("x", "y"), ("x_test", "y_test")))
    half_range = (chosen.max_translation - 1) / 2 * after / before / (after / 2)
    net = mlp((1, after), 10, seed)
    return Problem(train, test, net, TimeSeries(), truth={"shift": half_range}, settings={"epochs": 100})


def shifted_demand(seed: int, folders: Folders) -> Problem:
    """The daily demand for electricity in Italy, in summer or winter, shifted by up to 3 of 24 hours."""
    return _changed_series("ItalyPowerDemand", TimeSeries(["shift"], init=0.25), seed, folders)


def dilated_gestures(seed: int, folders: Folders) -> Problem:
    """The height of a hand that draws a gun or points with a finger, made slower or faster by up to a half."""
    return _changed_series("GunPoint", TimeSeries(["dilation"], init=0.4), seed, folders)


def _changed_series(name: str, by: TimeSeries, seed: int, folders: Folders) -> Problem:
    """Return the larger part of a data set of the UCR archive, of which 40 % are for test, changed by known ranges."""
    folder = folders.series or package_folder("aeon") / "datasets" / "data"
    first, second = _parts(folder / name / f"{name}_TEST.ts", seed)
    train, test = transform_once((first, second), by, seed)
    net = mlp(tuple(train[0].shape[1:]), int(train[1].max()) + 1, seed)
    return Problem(train, test, net, TimeSeries(), truth=dict(by.ranges), settings={"epochs": 60})


def _parts(file: Path, seed: int) -> tuple[Labelled, Labelled]:
    data = read(str(file), reading=Reading(test_share=0.4, seed=seed))
    train, test = ((part.images(torch.arange(len(part))), part.labels) for part in (data.train, data.test))
    return train, test
