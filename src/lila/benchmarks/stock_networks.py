"""The cost of a hyper-step of stock networks of timm, in steps of the weights with as many views.

A run that learns while it trains has one view per example in hyper-steps and two in steps of the weights. So half of a
ratio is what the hyper-steps of an epoch cost, in epochs. Decompositions come on top, about a dozen in a short run:
`--decomposition` measures one. Batch norm is in evaluation mode, with statistics that were collected before.

    python -m lila.benchmarks.stock_networks --networks resnet18,vit_tiny_patch16_224,convnext_tiny
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lila.augment import Affine2d
from lila.augment.noise import Draw
from lila.benchmarks.measuring import ratios, seconds
from lila.benchmarks.script import new_parser, print_result, start
from lila.benchmarks.workloads import parameter_epoch
from lila.data.examples import Batch
from lila.laplace.evidence import Evidence
from lila.laplace.running import RunningEvidence
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior
from lila.model.statistics import freeze_statistics

NETWORKS = ("resnet18", "vit_tiny_patch16_224", "convnext_tiny")
_CLASSES = 10
_WEIGHT_SAMPLES = 2


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = new_parser(__doc__)
    parser.add_argument("--networks", default=",".join(NETWORKS), metavar="NAMES", help="of timm, with commas [three]")
    parser.add_argument("--size", type=int, default=32, metavar="N", help="side of an image in pixels [32]")
    parser.add_argument("--examples", type=int, default=8, metavar="N", help="examples of a hyper-step [8]")
    parser.add_argument("--samples", type=int, default=8, metavar="S", help="views per example [8]")
    parser.add_argument("--structure", default="kron", help="of the curvature [kron]")
    parser.add_argument("--decomposition", action="store_true", help="measure a decomposition too, which takes long")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of which the median is taken [5]")
    arguments = start(parser, given)
    results = {name: measure(name, arguments) for name in arguments.networks.split(",")}
    print_result(arguments, {"networks": results})


def measure(name: str, arguments: Any) -> dict[str, float]:
    """Return the ratios of a network, after an audit of it."""
    torch.manual_seed(0)
    net = _network(name, arguments.size)
    batch = arguments.examples * arguments.samples // _WEIGHT_SAMPLES
    x = torch.rand(batch, 3, arguments.size, arguments.size)
    data = x, torch.arange(batch) % _CLASSES
    model = InvariantModel(net, Affine2d(init=0.1), arguments.samples).in_fast_layout(x)
    evidence = Evidence(
        model, Categorical(), GaussianPrior(net), structure=arguments.structure, probes=1, gradient_probes=1
    )
    few = Batch(torch.arange(arguments.examples), *(part[: arguments.examples] for part in data))
    running = RunningEvidence(evidence, 1000, few)
    running.cotangent = evidence.no_curvature()  # a hyper-step costs the same with any cotangent
    hyper_step = partial(running.add, few, Draw(), len(few.x))
    step = partial(parameter_epoch, model.with_samples(_WEIGHT_SAMPLES), data, len(x))
    (cost,) = ratios([hyper_step], step, arguments.repeats)
    of_step = seconds(step, arguments.repeats)
    weights = sum(p.numel() for p in net.parameters())
    result = {"weights": weights, "seconds of a step": of_step, "hyper-step / step": cost}
    if arguments.decomposition:
        decomposition = seconds(partial(running.decompose, move_prior=False), 1, warm_up=False)
        result["decomposition / step"] = decomposition / of_step
    return result


def _network(name: str, size: int) -> nn.Module:
    """Make a network of timm with its own layers, and collect the statistics of its batch norms."""
    import timm

    try:
        net: nn.Module = timm.create_model(name, num_classes=_CLASSES, img_size=size)
    except TypeError:  # it takes images of any size
        net = timm.create_model(name, num_classes=_CLASSES)
    images: Tensor = torch.rand(16, 3, size, size)
    with torch.no_grad():
        for _ in range(20):
            net(images)
    return freeze_statistics(net)


if __name__ == "__main__":
    main()
