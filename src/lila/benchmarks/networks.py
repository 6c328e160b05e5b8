"""What a hyper-step costs, in units of an epoch of the weights, as ratios measured in one run.

The unit is a forward, a backward to the weights and a step over the same examples, samples and batches. Nothing is
timed before it has been checked: the exact gradient against differences of the evidence, that of each kind of passes
against the exact one of the same examples, the warp and its gradient against PyTorch's.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from lila.augment.families import Affine2d
from lila.augment.noise import Draw
from lila.benchmarks.tools import peak, ratios, seconds
from lila.errors import NumericalError
from lila.laplace.evidence import Evidence
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior
from lila.networks.plain import mlp
from lila.networks.registry import make_model
from lila.training.settings import FULL_PASSES, PassesName, Settings

_RANGE = 0.1  # of each generator
_CHECKED = 100  # examples, on which gradients are checked
_DIFFERENCES = (1e-8, 1e-9)  # smaller than what lies between two kinks of a network; the second if the first is not
_TOLERANCE_OF_DIFFERENCES = 0.2
_TOLERANCE = 0.5  # of the gradient's norm, by which probes may be off
_TOLERANCE_OF_WARPS = 0.01  # where a pixel falls on a kink, rounding decides on its gradient


@dataclass(frozen=True)
class Job:
    """A network to measure.

    Attributes:
        model: its name.
        shape: of an image.
        samples: S.
        batch: examples per step of the weights; a hyper-step takes fewer at a time, as `fit` does.
        classes: number of outputs.
        width: of the hidden layer, if it is an MLP.
        examples: on how many it is measured, unless told otherwise. Decomposing the factors takes as long whatever the
            number: for the MLP a fifth of an epoch of 1,000, but nothing beside one of 60,000.
        exact_examples: the most on which exact passes are measured, beside an epoch of as many; None for all. They take
            long, and where little time goes to decomposing the factors their ratio does not depend on it.
    """

    model: str
    shape: tuple[int, int, int]
    samples: int
    batch: int
    classes: int = 10
    width: int = 1000
    examples: int = 1000
    exact_examples: int | None = None

    def part(self, passes: str, all_examples: int) -> int:
        """On how many examples passes of some kind are measured, of a number of them."""
        return min(self.exact_examples or all_examples, all_examples) if passes == PassesName.EXACT else all_examples

    def microbatch(self, passes: str) -> int:
        """Examples at a time in a hyper-step of some kind."""
        return ceil(self.batch / Settings(passes=passes).resolved(self.batch).step_to_pass)


JOBS = {
    job.model: job
    for job in (
        Job("mlp", (1, 28, 28), samples=31, batch=128, examples=4000),
        Job("cnn", (1, 28, 28), samples=31, batch=128, exact_examples=256),
        Job("resnet-8-8", (3, 32, 32), samples=20, batch=128, exact_examples=256),
    )
}
"""The paper's networks with the samples of its experiments, in the parts in which `fit` takes its batches."""


def measure(job: Job, examples: int, repeats: int, kinds: Iterable[str] = FULL_PASSES) -> dict[str, float]:
    """Everything about one network and some kinds of passes, as ratios but for the seconds of the unit."""
    model, data = prepared(job, examples)
    epoch = partial(parameter_epoch, model, data, job.batch)
    result = {"seconds of an epoch": seconds(epoch, repeats)}
    (result["epoch / plain loop"],) = ratios([epoch], plain_loop(model, data, job.batch), repeats)
    result |= warp_ratios(model, data[0][: job.batch], repeats)
    step = peak(partial(parameter_epoch, model, first(data, job.batch), job.batch))
    for name in kinds:
        part = first(data, job.part(name, examples))
        work = hyper_steps(job, model, part, [name])[name]
        costs = ratios(work, partial(parameter_epoch, model, part, job.batch), repeats)
        result |= {f"{name}: pass {i + 1}": cost for i, cost in enumerate(costs)} | {f"{name}: total": sum(costs)}
        result[f"{name}: memory / of a step"] = max(map(peak, work)) / step
    return result


def first(data: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The first so many examples."""
    return data[0][:count], data[1][:count]


def prepared(job: Job, examples: int) -> tuple[InvariantModel, tuple[Tensor, Tensor]]:
    """A network with ranges to learn, and random data."""
    torch.manual_seed(0)
    mlps = job.model == "mlp"
    net = mlp(job.shape, job.classes, job.width) if mlps else make_model(job.model, job.shape, job.classes)
    with torch.no_grad():  # away from Fixup's zeros, where gradients vanish
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    x, y = torch.rand(examples, *job.shape), torch.randint(job.classes, (examples,))
    return InvariantModel(net, Affine2d(init=_RANGE), job.samples).in_fast_layout(x), (x, y)


def hyper_steps(
    job: Job, model: InvariantModel, data: tuple[Tensor, Tensor], kinds: Iterable[str] = FULL_PASSES
) -> dict[str, tuple[Callable[[], object], ...]]:
    """The passes of each kind of hyper-step, whose gradient was checked on a few of the examples."""
    made: dict[str, tuple[Callable[[], object], ...]] = {}
    few = first(data, _CHECKED)
    reference = evidence_of(job, model, PassesName.EXACT, len(few[0]))
    _check_by_differences(job, model, data)
    for name in kinds:
        evidence, sampled = evidence_of(job, model, name, len(data[0])), Settings(passes=name).sampled
        gradient, exact = (_gradient(way, few, sampled(len(few[0]))) for way in (evidence, reference))
        error = float((gradient - exact).norm() / exact.norm())
        if error > _TOLERANCE:
            raise NumericalError(f"{job.model}, {name}: the gradient is off by {error:.0%}, so it is not timed.")
        subset = sampled(len(data[0]))
        estimate = evidence.estimate(data, subset=subset)
        made[name] = (
            partial(evidence.estimate, data, subset=subset),
            partial(evidence.gradient, data, estimate, subset=subset),
        )
    return made


def evidence_of(job: Job, model: InvariantModel, passes: str, examples: int) -> Evidence:
    """The evidence with the probes that a kind of passes has for a number of examples."""
    probes, gradient_probes = Settings(passes=passes).probe_counts(examples)
    return Evidence(
        model,
        Categorical(),
        GaussianPrior(model.net),
        probes=probes,
        gradient_probes=gradient_probes,
        microbatch=job.microbatch(passes),
    )


def _gradient(evidence: Evidence, data: tuple[Tensor, Tensor], subset: int | None) -> Tensor:
    return evidence.gradient(data, evidence.estimate(data, subset=subset), subset)["augmentation.eta"]


def _check_by_differences(job: Job, model: InvariantModel, data: tuple[Tensor, Tensor]) -> None:
    """Compare the exact gradient along all generators with central differences, in float64 and for three examples."""
    wide = deepcopy(model).double()
    few = data[0][:3].double(), data[1][:3]
    evidence = Evidence(wide, Categorical(), GaussianPrior(wide.net))
    gradient = float(_gradient(evidence, few, None).sum())
    (eta,) = wide.augmentation.parameters()
    start = eta.detach().clone()

    def value(step: float) -> float:
        with torch.no_grad():
            eta.copy_(start + step)
        return evidence.estimate(few).value

    error = min(abs((value(step) - value(-step)) / (2 * step) / gradient - 1) for step in _DIFFERENCES)
    if error > _TOLERANCE_OF_DIFFERENCES:
        raise NumericalError(f"{job.model}, exact: the gradient is off by {error:.0%}, so nothing is timed.")


def parameter_epoch(model: InvariantModel, data: tuple[Tensor, Tensor], batch: int) -> None:
    """An epoch of the weights, as `fit` does it (without the prior's gradient, whose cost is nothing)."""
    optimiser = torch.optim.SGD(model.net.parameters(), lr=1e-6)
    for index in torch.arange(len(data[0])).split(batch):
        with torch.no_grad():
            views = model.views(data[0][index], model.draw(Draw(), index, data[0].dtype))
        _step(optimiser, model.average(views, len(index)), data[1][index])


def plain_loop(model: InvariantModel, data: tuple[Tensor, Tensor], batch: int) -> Callable[[], None]:
    """The same on images that are transformed already, as a loop of PyTorch alone would do it."""
    with torch.no_grad():
        parts = [
            (model.views(data[0][index], model.draw(Draw(), index, data[0].dtype)), data[1][index])
            for index in torch.arange(len(data[0])).split(batch)
        ]

    def loop() -> None:
        optimiser = torch.optim.SGD(model.net.parameters(), lr=1e-6)
        for views, y in parts:
            _step(optimiser, model.net(views).unflatten(0, (len(y), -1)).mean(1), y)

    return loop


def _step(optimiser: torch.optim.Optimizer, outputs: Tensor, y: Tensor) -> None:
    optimiser.zero_grad()
    F.cross_entropy(outputs, y).backward()
    optimiser.step()


def warp_ratios(model: InvariantModel, x: Tensor, repeats: int) -> dict[str, float]:
    """Time of the augmentation, noise to images, and of its gradient in eta, by those of `affine_grid`, `grid_sample`.

    PyTorch's are given the matrices, and their gradient ends there: the exponential is counted for ours alone.
    """
    augmentation = model.augmentation
    assert isinstance(augmentation, Affine2d)
    noise = model.draw(Draw(), torch.arange(len(x)), x.dtype)
    matrices = augmentation.elements(-noise)[..., :2, :].flatten(0, 1)
    theta = matrices.detach().requires_grad_()
    images = x.repeat_interleave(model.samples, 0)

    def pytorchs(matrices: Tensor) -> Tensor:
        grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, align_corners=False)

    ours, others = augmentation(x, noise).flatten(0, 1), pytorchs(theta)
    cotangent = torch.randn_like(others)

    def back(views: Tensor, to: Tensor) -> Tensor:
        return torch.autograd.grad(views, to, cotangent, retain_graph=True)[0]

    if x.shape[-1] == x.shape[-2]:  # otherwise theirs are not rigid
        (expected,) = torch.autograd.grad(matrices, augmentation.eta, back(others, theta))
        gradient = back(ours, augmentation.eta)
        for error in ((ours - others).detach().abs().max(), (gradient - expected).norm() / expected.norm()):
            if error > _TOLERANCE_OF_WARPS:
                raise NumericalError(f"The warp differs from PyTorch's by {float(error)}, so it is not timed.")
    with torch.no_grad():
        (forward,) = ratios([lambda: augmentation(x, noise)], lambda: pytorchs(theta), repeats)
    (backward,) = ratios([lambda: back(ours, augmentation.eta)], lambda: back(others, theta), repeats)
    return {"warp / PyTorch's": forward, "its gradient / PyTorch's": backward}
