"""What a hyper-step costs, in units of an epoch of the weights, as ratios measured in one run.

The unit is a forward, a backward to the weights and a step over the same examples, samples and batches. Nothing is
timed before it has been checked: the exact gradient against differences of the evidence, that of each kind of passes
against the exact one, the warp against PyTorch's.
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
from lila.bench.tools import peak, seconds
from lila.errors import NumericalError
from lila.evidence import Evidence
from lila.invariant import InvariantModel
from lila.likelihood import Categorical
from lila.models.plain import mlp
from lila.models.registry import make_model
from lila.noise import Draw
from lila.prior import GaussianPrior
from lila.training.settings import PassesName, Settings

_RANGE = 0.1  # of each generator
_CHECKED = 100  # examples, on which gradients are checked
_DIFFERENCE, _TOLERANCE_OF_DIFFERENCES = 1e-8, 0.2  # smaller than what lies between two kinks of a network
_TOLERANCE = 0.5  # of the gradient's norm, by which probes may be off


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
    """

    model: str
    shape: tuple[int, int, int]
    samples: int
    batch: int
    classes: int = 10
    width: int = 1000

    def microbatch(self, passes: str) -> int:
        """Examples at a time in a hyper-step of some kind."""
        return ceil(self.batch / Settings(passes=passes).step_to_pass)


JOBS = {
    job.model: job
    for job in (
        Job("mlp", (1, 28, 28), samples=31, batch=128),
        Job("cnn", (1, 28, 28), samples=31, batch=128),
        Job("resnet-8-8", (3, 32, 32), samples=20, batch=128),
    )
}
"""The networks, samples and images of the paper's timings, in the parts in which `fit` takes the paper's batches."""


def measure(job: Job, examples: int, repeats: int, kinds: Iterable[str] = tuple(PassesName)) -> dict[str, float]:
    """Everything about one network and some kinds of passes, as ratios but for the seconds of the unit."""
    model, data = prepared(job, examples)
    unit = seconds(partial(parameter_epoch, model, data, job.batch), repeats)
    result = {"seconds of an epoch": unit}
    result["epoch / plain loop"] = unit / seconds(plain_loop(model, data, job.batch), repeats)
    result["warp / PyTorch's"] = warp_ratio(model, data[0][: job.batch], repeats)
    step = peak(partial(parameter_epoch, model, (data[0][: job.batch], data[1][: job.batch]), job.batch))
    for name, work in hyper_steps(job, model, data, kinds).items():
        parts = [seconds(part, repeats) / unit for part in work]
        result |= {f"{name}: pass {i + 1}": ratio for i, ratio in enumerate(parts)} | {f"{name}: total": sum(parts)}
        result[f"{name}: memory / of a step"] = max(map(peak, work)) / step
    return result


def prepared(job: Job, examples: int) -> tuple[InvariantModel, tuple[Tensor, Tensor]]:
    """A network with ranges to learn, and random data."""
    torch.manual_seed(0)
    mlps = job.model == "mlp"
    net = mlp(job.shape, job.classes, job.width) if mlps else make_model(job.model, job.shape, job.classes)
    with torch.no_grad():  # away from Fixup's zeros, where gradients vanish
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    model = InvariantModel(net, Affine2d(init=_RANGE), job.samples)
    return model, (torch.rand(examples, *job.shape), torch.randint(job.classes, (examples,)))


def hyper_steps(
    job: Job, model: InvariantModel, data: tuple[Tensor, Tensor], kinds: Iterable[str] = tuple(PassesName)
) -> dict[str, tuple[Callable[[], object], ...]]:
    """The passes of each kind of hyper-step, whose gradient was checked on a few of the examples."""
    made: dict[str, tuple[Callable[[], object], ...]] = {}
    few = data[0][:_CHECKED], data[1][:_CHECKED]
    reference = evidence_of(job, model, PassesName.EXACT, len(few[0]))
    exact = reference.gradient(few, reference.estimate(few))["augmentation.eta"]
    _check_by_differences(job, model, data)
    for name in kinds:
        evidence, subset = evidence_of(job, model, name, len(data[0])), Settings(passes=name).sampled(len(data[0]))
        gradient = evidence.gradient(few, evidence.estimate(few))["augmentation.eta"]
        error = float((gradient - exact).norm() / exact.norm())
        if error > _TOLERANCE:
            raise NumericalError(f"{job.model}, {name}: the gradient is off by {error:.0%}, so it is not timed.")
        estimate = evidence.estimate(data, subset=subset)
        made[name] = (
            partial(evidence.estimate, data, subset=subset),
            partial(evidence.gradient, data, estimate, subset=subset),
        )
    return made


def evidence_of(job: Job, model: InvariantModel, passes: str, examples: int) -> Evidence:
    """The evidence with the probes that a kind of passes has for a number of examples."""
    probes, gradient_probes = Settings(passes=passes).probe_counts(examples)
    prior = GaussianPrior(model.net)
    return Evidence(model, Categorical(), prior, "kron", "ggn", probes, gradient_probes, job.microbatch(passes))


def _check_by_differences(job: Job, model: InvariantModel, data: tuple[Tensor, Tensor]) -> None:
    """Compare the exact gradient along all generators with central differences, in float64 and for three examples."""
    wide = deepcopy(model).double()
    few = data[0][:3].double(), data[1][:3]
    evidence = Evidence(wide, Categorical(), GaussianPrior(wide.net))
    gradient = float(evidence.gradient(few, evidence.estimate(few))["augmentation.eta"].sum())
    (eta,) = wide.augmentation.parameters()
    values = []
    for step in (_DIFFERENCE, -2 * _DIFFERENCE):
        with torch.no_grad():
            eta.add_(step)
        values.append(evidence.estimate(few).value)
    error = abs((values[0] - values[1]) / (2 * _DIFFERENCE) / gradient - 1)
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


def warp_ratio(model: InvariantModel, x: Tensor, repeats: int) -> float:
    """Time of the augmentation and its gradient in eta, noise to images, by that of `affine_grid` and `grid_sample`."""
    augmentation = model.augmentation
    assert isinstance(augmentation, Affine2d)
    noise = model.draw(Draw(), torch.arange(len(x)), x.dtype)
    theta = augmentation.elements(-noise)[..., :2, :].detach().flatten(0, 1).requires_grad_()
    images = x.repeat_interleave(model.samples, 0)

    def ours() -> Tensor:
        views: Tensor = augmentation(x, noise)
        views.sum().backward()
        return views

    def pytorchs() -> Tensor:
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        views = F.grid_sample(images, grid, align_corners=False)
        views.sum().backward()
        return views

    error = float((ours().flatten(0, 1) - pytorchs()).detach().abs().max())
    if x.shape[-1] == x.shape[-2] and error > 1e-3:
        raise NumericalError(f"The warp differs from PyTorch's by {error}, so it is not timed.")
    return seconds(ours, repeats) / seconds(pytorchs, repeats)
