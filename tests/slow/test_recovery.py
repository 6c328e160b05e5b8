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
        epochs=60,
        batch_size=125,
        eta_lr=0.1,
        burn_in=5,
        seed=seed,
    )
    ranges = dict(run.ranges)
    assert ranges.pop("rotation") == pytest.approx(pi / 2, rel=0.1)
    assert max(ranges.values()) < 0.15, ranges
