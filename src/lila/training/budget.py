"""The microbatch that fits into a memory budget, found by measuring small ones.

The memory of a microbatch of b examples is  fixed + b * each.  The fixed part holds factors and cotangents. The other
part is the graph, of the second pass or of a step of the weights, whichever is larger. Two measurements give both
numbers. Memory may not grow linearly in b, so the choice is measured too, and made smaller if needed.
"""

from math import ceil

import torch

from lila._util.allocation import Allocation
from lila._util.memory import available_bytes, parse_bytes, readable_bytes
from lila.augment.noise import Draw
from lila.data.examples import Batch, Data
from lila.errors import MemoryBudgetError
from lila.laplace.evidence import Evidence
from lila.laplace.log_likelihood import log_likelihoods
from lila.laplace.passes import pull_back
from lila.training.choices import PassesName
from lila.training.methods import LearnedBy
from lila.training.settings import ResolvedSettings

_SMALL, _LESS_SMALL = 1, 3
_SHARE = 0.5  # of the free memory that is the budget, if the user names none
_MOST_ON_CPU = 128 * 31  # views in memory in a step of the weights: more would only leave the caches


def choose_microbatch(evidence: Evidence, data: Data, settings: ResolvedSettings) -> int:
    """Return the number of examples whose graph fits into the budget.

    Args:
        evidence: its second pass is measured.
        data: the training data.
        settings: give the budget, which is half of the free memory if None, and the batch of a step of the weights,
            beyond which a larger microbatch is of no use.
    """
    device = next(evidence.model.net.parameters()).device
    budget = available_bytes(device) * _SHARE if settings.memory is None else parse_bytes(settings.memory, "memory")
    check_views(evidence, data, budget)
    small, less_small = (measure(evidence, data, count, settings) for count in (_SMALL, _LESS_SMALL))
    each = max((less_small - small) / (_LESS_SMALL - _SMALL), 1.0)
    fixed = small - each * _SMALL
    fits = int((budget - fixed) / each)
    if fits < 1:
        raise MemoryBudgetError(
            f"A single example needs {readable_bytes(fixed + each)} ({readable_bytes(fixed)} of it whatever the number "
            f"of examples), but the budget is {readable_bytes(budget)}. Give more memory, or use fewer samples, one "
            "gradient probe, or structure='diag'."
        )
    most = ceil(_MOST_ON_CPU / settings.weight_samples)
    of_step = settings.batch_size if device.type == "cuda" else min(settings.batch_size, most)
    wanted = ceil(of_step / settings.microbatch_ratio)
    if settings.passes == PassesName.RUNNING:
        wanted = max(wanted, min(settings.hyper_batch, settings.batch_size))
    else:  # a pass is slow in small pieces: few views in steps of the weights are no reason to take few examples here
        in_pass = min(settings.batch_size, ceil(_MOST_ON_CPU / settings.samples))
        wanted = max(wanted, ceil(in_pass * settings.samples / settings.weight_samples / settings.microbatch_ratio))
    count = min(fits, wanted)
    while count > 1 and (used := measure(evidence, data, count, settings)) > budget:
        count = max(min(int(count * (budget - fixed) / (used - fixed)), count - 1), 1)
    return count


def measure(evidence: Evidence, data: Data, count: int, settings: ResolvedSettings) -> int:
    """Return the peak bytes of the second pass over `count` examples or of a step of the weights, if that is larger."""
    in_step = max(min(int(settings.microbatch_ratio * count), max(settings.batch_size, count)), 1)
    return max(_of_pass(evidence, data, count), _of_step(evidence, data, in_step, settings))


def check_views(evidence: Evidence, data: Data, budget: float, examples: int = 1) -> None:
    """Raise MemoryBudgetError if the views of some examples alone exceed the budget, before anything makes them."""
    x = next(evidence.examples(data).batches(1)).x
    needed = examples * evidence.model.samples * x.numel() * x.element_size()
    if needed > budget:
        views = examples * evidence.model.samples
        of = "a single example" if examples == 1 else f"a microbatch of {examples:,} examples"
        fewer = "fewer samples" if examples == 1 else "a smaller microbatch, or fewer samples"
        raise MemoryBudgetError(
            f"The {views:,} views of {of} need {readable_bytes(needed)}, but the budget is {readable_bytes(budget)}. "
            f"Use {fewer}."
        )


def check_given_microbatch(evidence: Evidence, data: Data, settings: ResolvedSettings) -> None:
    """Raise MemoryBudgetError if the views of a microbatch that the user chose cannot be held in memory.

    The budget is the memory that the settings name, or else all free memory: whoever chooses the microbatch leaves
    nothing for lila to share out.
    """
    device = next(evidence.model.net.parameters()).device
    budget = available_bytes(device) if settings.memory is None else parse_bytes(settings.memory, "memory")
    assert settings.microbatch is not None
    check_views(evidence, data, budget, min(settings.microbatch, len(evidence.examples(data))))


def _of_pass(evidence: Evidence, data: Data, count: int) -> int:
    cotangent = evidence.no_curvature()  # it has the size of the true one, but needs no decompositions
    batch = repeated(next(evidence.examples(data).batches(1)), count)
    pass_ = evidence.gradient_pass()
    parameters = list(evidence.data_hyperparameters().values())
    with Allocation() as allocation, torch.enable_grad():
        pull_back(pass_, [batch], cotangent, parameters) if parameters else pass_.batch(batch, differentiable=False)
    return allocation.peak


def _of_step(evidence: Evidence, data: Data, count: int, settings: ResolvedSettings) -> int:
    eta_by_loss = settings.procedure.eta is LearnedBy.LOSS  # a step then differentiates the transformations too
    batch = repeated(next(evidence.examples(data).batches(1)), count)
    model = evidence.model.with_samples(settings.weight_samples)
    module = model if eta_by_loss else model.net
    with Allocation() as allocation, torch.enable_grad():
        _, each = log_likelihoods(model, evidence.likelihood, batch, Draw(), differentiate_views=eta_by_loss)
        parameters = [p for p in module.parameters() if p.requires_grad]
        torch.autograd.grad(each.sum(), parameters, allow_unused=True)
    return allocation.peak


def repeated(batch: Batch, count: int) -> Batch:
    """Return the first example of a batch, `count` times."""
    return Batch(*(part[:1].repeat(count, *[1] * (part.dim() - 1)) for part in (batch.index, batch.x, batch.y)))
