"""Real images turned by up to 90 degrees: the range is recovered, and nothing else is learned.

The data is found as the library finds it: LILA_DATA must point to a folder with `mnist/` and `fashion-mnist/`.
"""

from math import pi

import pytest
import torch

import lila
from lila.data.sources import KNOWN, find


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("mnist", 0), ("fashion-mnist", 1)])
def test_the_rotation_of_1250_images_is_recovered_and_nothing_else(name: str, seed: int) -> None:
    if find(KNOWN[name]) is None:
        pytest.skip(f"{name} is not here: get it with `lila data get {name}`")
    torch.set_num_threads(1)
    task = lila.load_data(lila.Recipe(name, transform="partially-rotated", subset=1250, seed=seed))
    torch.manual_seed(seed)
    run = lila.fit(
        lila.make_model("mlp", task.shape, len(task.classes)),
        task.train,
        lila.Affine2d(),
        progress="silent",
        seed=seed,
    )
    ranges = dict(run.ranges)
    assert ranges.pop("rotation") == pytest.approx(pi / 2, rel=0.1)
    assert max(ranges.values()) < 0.05, ranges


TRUE = {
    "partially-rotated": {"rotation": pi / 2},
    "fully-rotated": {"rotation": pi},
    "translated": {"x-translation": 16 / 28, "y-translation": 16 / 28},
    "scaled": {"x-scale": 0.693, "y-scale": 0.693},
}


@pytest.mark.slow
@pytest.mark.parametrize("version", TRUE)
def test_three_epochs_of_all_of_mnist_tell_which_ranges_there_are(version: str) -> None:
    if find(KNOWN["mnist"]) is None:
        pytest.skip("mnist is not here: get it with `lila data get mnist`")
    torch.set_num_threads(1)
    task = lila.load_data(lila.Recipe("mnist", transform=version))
    torch.manual_seed(0)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    ranges = dict(lila.fit(net, task.train, lila.Affine2d(), progress="silent", epochs=3).ranges)
    found = {name: ranges.pop(name) for name in TRUE[version]}
    assert max(ranges.values()) < 0.1, ranges
    assert min(found.values()) > 2 * max(ranges.values())
    assert all(found[name] > 0.4 * true for name, true in TRUE[version].items())
