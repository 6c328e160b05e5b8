"""The cost of a hyper-step in units of an epoch of the weights, as ratios measured in one run.

The unit is a forward, a backward to the weights and a step over the same examples, samples and batches. Nothing is
timed before it has been checked: the exact gradient against differences of the evidence, the gradient of each kind of
passes against the exact gradient for the same examples, the warp and its gradient against PyTorch's.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor

from lila.benchmarks.measuring import peak_bytes, ratios, seconds
from lila.benchmarks.warps import warp_ratios
from lila.benchmarks.workloads import Workload, first_examples, parameter_epoch, plain_loop, prepare
from lila.errors import NumericalError
from lila.laplace.evidence import Evidence
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Categorical
from lila.model.prior import GaussianPrior
from lila.training.choices import FULL_PASSES, PassesName
from lila.training.settings import Settings

_CHECKED = 100  # examples on which gradients are checked
_DIFFERENCES = (1e-8, 1e-9)  # steps small enough to meet no kink of a network; the second in case the first does
_TOLERANCE_OF_DIFFERENCES = 0.2
_TOLERANCE = 0.5  # largest error of a gradient by probes, relative to the norm of the exact one


def measure(workload: Workload, examples: int, repeats: int, kinds: Iterable[str] = FULL_PASSES) -> dict[str, float]:
    """Return all ratios of a network for some kinds of passes, and the seconds of the unit."""
    model, data = prepare(workload, examples)
    epoch = partial(parameter_epoch, model, data, workload.batch)
    result = {"seconds of an epoch": seconds(epoch, repeats)}
    (result["epoch / plain loop"],) = ratios([epoch], plain_loop(model, data, workload.batch), repeats)
    result |= warp_ratios(model, data[0][: workload.batch], repeats)
    step_bytes = peak_bytes(partial(parameter_epoch, model, first_examples(data, workload.batch), workload.batch))
    for kind in kinds:
        measured = first_examples(data, workload.examples_for(kind, examples))
        passes = checked_passes(workload, model, measured, [kind])[kind]
        costs = ratios(passes, partial(parameter_epoch, model, measured, workload.batch), repeats)
        result |= {f"{kind}: pass {i + 1}": cost for i, cost in enumerate(costs)} | {f"{kind}: total": sum(costs)}
        result[f"{kind}: memory / of a step"] = max(map(peak_bytes, passes)) / step_bytes
    return result


def checked_passes(
    workload: Workload, model: InvariantModel, data: tuple[Tensor, Tensor], kinds: Iterable[str] = FULL_PASSES
) -> dict[str, tuple[Callable[[], object], ...]]:
    """Return the two passes of each kind of hyper-step, after checking its gradient on some of the examples."""
    passes: dict[str, tuple[Callable[[], object], ...]] = {}
    few = first_examples(data, _CHECKED)
    reference = evidence_of(workload, model, PassesName.EXACT, len(few[0]))
    _check_by_differences(workload, model, data)
    for kind in kinds:
        evidence = evidence_of(workload, model, kind, len(data[0]))
        sampled = Settings(passes=kind).examples_per_estimate
        gradient, exact = (_gradient(way, few, sampled(len(few[0]))) for way in (evidence, reference))
        error = float((gradient - exact).norm() / exact.norm())
        if error > _TOLERANCE:
            raise NumericalError(f"{workload.model}, {kind}: the gradient is off by {error:.0%}, so it is not timed.")
        step = _HyperStep(evidence, data, sampled(len(data[0])))
        passes[kind] = (step.first_pass, step.second_pass)
    return passes


class _HyperStep:
    """The two passes of a hyper-step, of which the second uses what the first has found last.

    Args:
        evidence: how the evidence is computed.
        data: inputs and targets.
        subset: the number of examples in the passes; None for all.
    """

    def __init__(self, evidence: Evidence, data: tuple[Tensor, Tensor], subset: int | None) -> None:
        self._evidence, self._data, self._subset = evidence, data, subset
        self._estimate = evidence.estimate(data, subset=subset)

    def first_pass(self) -> None:
        """Estimate the evidence, without an audit: a run is audited once, before its first epoch."""
        self._estimate = self._evidence.estimate(self._data, subset=self._subset, audit=False)

    def second_pass(self) -> None:
        """Compute the gradient of the evidence."""
        self._evidence.gradient(self._data, self._estimate, self._subset)


def evidence_of(workload: Workload, model: InvariantModel, passes: str, examples: int) -> Evidence:
    """Return the evidence with the number of probes that a kind of passes has for a number of examples."""
    probes, gradient_probes = Settings(passes=passes).probe_counts(examples)
    return Evidence(
        model,
        Categorical(),
        GaussianPrior(model.net),
        curvature="ggn",
        probes=probes,
        gradient_probes=gradient_probes,
        microbatch=workload.microbatch(passes),
    )


def _gradient(evidence: Evidence, data: tuple[Tensor, Tensor], subset: int | None) -> Tensor:
    return evidence.gradient(data, evidence.estimate(data, subset=subset), subset)["augmentation.eta"]


def _check_by_differences(workload: Workload, model: InvariantModel, data: tuple[Tensor, Tensor]) -> None:
    """Compare the exact gradient, summed over the generators, with central differences in float64 on three examples."""
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
        raise NumericalError(f"{workload.model}, exact: the gradient is off by {error:.0%}, so nothing is timed.")
