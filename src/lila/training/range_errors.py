"""Error bars of the learned ranges, from the curvature of the evidence at the end of a run.

Near its maximum the evidence is a parabola, log p(D | eta) ~ constant - 1/2 (eta - eta*)' L (eta - eta*), so that under
a flat prior over eta the posterior of eta is a normal distribution with covariance L^-1 (Laplace's approximation, as
for the weights). L is minus the second derivative (`lila.laplace.second_derivative`). A range r(eta) then has the
variance J L^-1 J', with J its derivative in eta. Its error bar is the square root: moved so far, with the other ranges
following, the evidence falls by half a nat.

Where the evidence is not concave there is no maximum, and no error bar. The range that takes the largest part in the
direction of the largest eigenvalue is then held, until the evidence is concave in the others.

The weights and the prior are held too, at what was trained for these ranges. Weights that were trained anew for other
ranges would lose less, so the error bars are rather too small. They are not the spread over seeds, which has other
causes: other images, other first weights, another path of the training.
"""

from math import isfinite, sqrt

import torch
from torch import Tensor

from lila._util.memory import available_bytes
from lila._util.ranks import Ranks
from lila.augment.base import Augmentation
from lila.augment.noise import Draw
from lila.data.examples import Data, Examples
from lila.laplace.second_derivative import second_derivative
from lila.laplace.terms import Estimate
from lila.training.choices import PassesName
from lila.training.methods import LearnedBy
from lila.training.optimisers import optimised
from lila.training.settings import ResolvedSettings
from lila.training.setup import make_evidence
from lila.training.state import State

_SHARE = 0.1  # of the hyper-steps' cost that error bars may take
_LEAST, _MOST = 32, 2_000  # examples that stand for all
_MOST_PARAMETERS = 24  # of an augmentation: each costs two passes
_MEMORY_SHARE = 0.25  # of the free memory that slopes of the curvature may take
_STEP = 1e-3  # of a parameter, to find how a range follows it
_UNMOVED = 1e-6  # change of a range that is rounding: at its limit a range does not follow its parameter

RangeErrors = dict[str, float | None]
"""The error bar of each range in its generator's unit; None where the evidence is not concave."""


def range_errors(
    state: State, settings: ResolvedSettings, data: Data, estimate: Estimate, ranks: Ranks
) -> RangeErrors | None:
    """Return the error bars of the ranges of a finished run; None if they are not learned by it or would cost too much.

    Args:
        state: the state after the last epoch.
        settings: how it was trained.
        data: the training data.
        estimate: the final evidence.
        ranks: the processes that share the work.
    """
    made = sum(record.hyper_steps for record in state.history)
    examples = affordable_examples(state, settings, len(Examples(data)), hyper_steps=made)
    if not examples:
        return None
    parameters = [p for p in state.model.augmentation.parameters() if p.requires_grad]
    copies = 2 * sum(p.numel() for p in parameters)
    curvature = copies * sum(tensor.nbytes for tensor in estimate.curvature.tensors())
    if min(ranks.gather(available_bytes(parameters[0].device))) * _MEMORY_SHARE < curvature:
        return None
    evidence, draw = make_evidence(state, settings, data, ranks), Draw(settings.seed, 2 * settings.epochs + 1)
    hessian = second_derivative(evidence, data, estimate, examples=examples, draw=draw)
    return errors_of(state.model.augmentation, hessian)


def affordable_examples(state: State, settings: ResolvedSettings, examples: int, *, hyper_steps: float) -> int:
    """Return the number of examples on which error bars take a tenth of the cost of the hyper-steps.

    It is 0 if there would be too few, or if the ranges are not learned by the evidence.

    Args:
        state: gives the parameters of the augmentation.
        settings: how the run is trained.
        examples: the number of training examples.
        hyper_steps: the number of hyper-steps of the run.
    """
    count = _learned_parameters(state)
    if settings.procedure.eta is not LearnedBy.EVIDENCE or not 0 < count <= _MOST_PARAMETERS or examples < 2:
        return 0
    affordable = int(_SHARE * hyper_steps * _in_hyper_step(settings, examples) / (2 * count))
    return min(affordable, examples, _MOST) if affordable >= min(_LEAST, examples) else 0


def cost_in_hyper_steps(state: State, settings: ResolvedSettings, examples: int, *, hyper_steps: float) -> float:
    """Return how many hyper-steps take as long as the error bars, with the arguments of `affordable_examples`."""
    chosen = affordable_examples(state, settings, examples, hyper_steps=hyper_steps)
    return 2 * _learned_parameters(state) * chosen / _in_hyper_step(settings, examples)


def _learned_parameters(state: State) -> int:
    """Return the number of the augmentation's parameters that are learned."""
    return sum(p.numel() for p in optimised(state.optimisers["eta"])) if "eta" in state.optimisers else 0


def _in_hyper_step(settings: ResolvedSettings, examples: int) -> int:
    """Return the number of examples of a hyper-step."""
    if settings.passes == PassesName.RUNNING:
        return min(settings.hyper_batch, settings.batch_size, examples)
    return settings.examples_per_estimate(examples) or examples


def errors_of(augmentation: Augmentation, hessian: Tensor) -> RangeErrors:
    """Return the error bar of each range that follows from the second derivative of the evidence.

    Args:
        augmentation: the augmentation with its learned parameters.
        hessian: the second derivative in its trainable parameters, shape (d, d).
    """
    slopes, hessian = _range_slopes(augmentation), hessian.cpu()
    kept = _concave(hessian)
    covariance = torch.zeros_like(hessian)
    if len(kept):
        covariance[kept[:, None], kept] = torch.linalg.inv(-hessian[kept[:, None], kept])
    held = torch.ones(len(hessian), dtype=torch.bool).scatter_(0, kept, False)
    errors: RangeErrors = {}
    for name, slope in slopes.items():
        slope = slope.to(hessian)
        variance = float(slope @ covariance @ slope)
        known = isfinite(variance) and variance > 0 and not bool(slope[held].any())
        errors[name] = sqrt(variance) if known else None
    return errors


def _concave(hessian: Tensor) -> Tensor:
    """Return the positions of parameters in which the evidence is concave, by leaving out those that prevent it."""
    kept = torch.arange(len(hessian))
    if not hessian.isfinite().all():
        return kept[:0]
    while len(kept):
        values, vectors = torch.linalg.eigh(hessian[kept[:, None], kept])
        if values[-1] < 0:
            break
        worst = int(vectors[:, -1].abs().argmax())
        kept = torch.cat([kept[:worst], kept[worst + 1 :]])
    return kept


@torch.no_grad()
def _range_slopes(augmentation: Augmentation) -> dict[str, Tensor]:
    """Return the derivative of each range in the trainable parameters, by differences away from zero.

    The sign of a parameter means nothing: a range is its absolute value, which has a kink at zero.
    """
    before, columns = augmentation.ranges, []
    for parameter in (p for p in augmentation.parameters() if p.requires_grad):
        flat = parameter.data.view(-1)
        for position in range(parameter.numel()):
            value = flat[position].clone()
            step = -_STEP if value < 0 else _STEP
            flat[position] += step
            moved = {name: after - before[name] for name, after in augmentation.ranges.items()}
            columns.append([change / step if abs(change) > _UNMOVED else 0.0 for change in moved.values()])
            flat[position] = value
    rows = torch.tensor(columns, dtype=torch.float64).mT.reshape(len(before), len(columns))
    return dict(zip(before, rows, strict=True))
