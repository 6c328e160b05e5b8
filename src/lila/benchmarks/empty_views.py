"""What a network gains in evidence by views that show nothing: by Kronecker factors, and by the full matrix.

Shifted far enough, an image leaves the frame, and what is left of it is black. A small network is trained on digits
with the shift along x held at some ranges. At its final weights, the evidence is computed with Kronecker factors, with
factors of averaged products, and with the full Gauss-Newton matrix. They differ in the Occam factor alone.

The Kronecker factors of the paper are made of averages over views of a layer's inputs a_s and of its output gradients
g_s, each for itself. If a share q of the views shows anything, both averages shrink by q, and their product by q^2,
where the true average J = 1/S sum_s g_s a_s' shrinks by q. Factors of averaged products (`ProductKron`) have
G = sum_n sum_k J J' / |a|^2 with the average a of the inputs: for views that are all alike that is sum_n sum_k g g'
again, and the trace of the block of a single example is exact.

    python -m lila.benchmarks.empty_views
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import lila
from lila.benchmarks.script import new_parser, print_result, start
from lila.curvature.autograd.tape import Samples, Tape
from lila.curvature.kron import Kron
from lila.curvature.moments import Outer

_IMAGES, _UNITS = 300, 8  # few enough for the full matrix
STRUCTURES = ("kron", "kron-of-products", "full")


@dataclass(frozen=True)
class ProductKron(Kron):
    """Kronecker factors whose G is made of averages over views of the product g a'; for layers with one position."""

    samples: ClassVar[Samples] = Samples.POSITIONS

    @classmethod
    def _input_moments(cls, tape: Tape, position: int, a: Tensor) -> Sequence[Outer]:
        return [Outer(a.mean(1, keepdim=True))]

    @classmethod
    def _output_moments(cls, tape: Tape, position: int, a: Tensor, g: Tensor) -> Sequence[Outer]:
        J = torch.einsum("bsro,bsrd->bdro", g, a)  # g is g_s / S already
        return [Outer(J / a.mean(1, keepdim=True).norm(dim=-1, keepdim=True))]


def held_at(task: lila.Task, shift: float, seed: int) -> dict[str, Any]:
    """Train with a range of the shift that is held, and return the evidence per image by all structures."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.LazyLinear(_UNITS), nn.ReLU(), nn.Linear(_UNITS, len(task.classes)))
    net(torch.zeros(1, *task.shape))
    augmentation = lila.Affine2d(["x-translation"], init=shift)
    options: dict[str, Any] = {"test": task.test, "baseline": False, "progress": "silent", "seed": seed}
    run = lila.fit(net, task.train, augmentation, method="fixed", epochs=60, weight_samples=16, **options)
    assert run.test is not None
    found: dict[str, Any] = {"test accuracy": run.test["accuracy"]}
    for structure in STRUCTURES:
        evidence = lila.Evidence(run.model, run.likelihood, run.prior, structure=structure)
        estimate = evidence.estimate(task.train, lila.Draw(seed, 1_000))
        found["fit"] = estimate.log_likelihood / _IMAGES
        found[structure] = {"evidence": estimate.value / _IMAGES, "Occam factor": estimate.occam_factor / _IMAGES}
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__, threads=1)
    parser.add_argument("--shifts", default="0.1,0.3,0.6,1,1.5,2,3", metavar="X,...", help="in half sides of an image")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="[0]")
    arguments = start(parser, given)
    lila.register_structure("kron-of-products", ProductKron)
    task = lila.load_data(lila.Recipe("digits", subset=_IMAGES, seed=arguments.seed), in_memory=True)
    shifts = map(float, arguments.shifts.split(","))
    print_result(arguments, {f"{shift:g}": held_at(task, shift, arguments.seed) for shift in shifts})


if __name__ == "__main__":
    main()
