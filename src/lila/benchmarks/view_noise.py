"""The variance of averages over the views of an example, for independent and for stratified noise.

A network is trained on rotated digits. Then f_hat is drawn twenty times for each of 200 test images, with the rotation
alone active and with all six ranges, and its variance over the draws is averaged over images and outputs.

    python -m lila.benchmarks.view_noise
"""

from collections.abc import Sequence
from typing import Any

import torch

import lila
from lila.benchmarks.script import new_parser, print_result, start

_RANGES = {
    "rotation alone": [0.0, 0.0, 1.5, 0.0, 0.0, 0.0],
    "six ranges": [0.3, 0.3, 1.0, 0.2, 0.2, 0.1],
}
_DRAWS = 20


@torch.no_grad()
def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    torch.manual_seed(arguments.seed)
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", seed=arguments.seed), in_memory=True)
    assert isinstance(task.test, tuple)
    net = lila.make_model("mlp", task.shape, len(task.classes))
    with torch.enable_grad():
        lila.fit(net, task.train, lila.Affine2d(), progress="silent", seed=arguments.seed)
    x, index = task.test[0][:200], torch.arange(200)
    found: dict[str, Any] = {}
    for name, ranges in _RANGES.items():
        for kind in ("independent", "stratified"):
            for samples in (2, 4, 8, 16, 31):
                model = lila.InvariantModel(net, lila.Affine2d(init=ranges), samples, kind)
                noises = [model.draw(lila.Draw(1, epoch), index, x.dtype) for epoch in range(_DRAWS)]
                f = torch.stack([model(x, noise) for noise in noises])
                found.setdefault(name, {}).setdefault(kind, {})[samples] = round(float(f.var(0).mean()), 4)
    print_result(arguments, found)


if __name__ == "__main__":
    main()
