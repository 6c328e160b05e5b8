"""Ranges by a lower bound on the evidence, from the neural tangent kernel of a few examples.

Immer, van der Ouderaa, van der Wilk, Rätsch and Schölkopf, "Stochastic Marginal Likelihood Gradients using Neural
Tangent Kernels", ICML 2023. With the Jacobians J of f_hat, the root L of the output Hessian and the prior's precisions
P = diag(delta), the Occam factor of the Laplace evidence with full curvature is

    -1/2 log|I + P^-1 J' L L' J| = -1/2 log|K|,    K = I + L' J P^-1 J' L,

where K has a row for each example and output: it is I plus the tangent kernel. For the examples B of a random subset,
M out of N, take their block K_B of K:

    -1/2 (N / M) log|K_B|.

On average this is not above the Occam factor. By Fischer's inequality, log|K| <= sum_i log|K_i| for the diagonal blocks
K_i of a partition of K. The subsets of a random partition are each uniform among all subsets of M examples, so that the
mean of (N / M) log|K_B| is that of sum_i log|K_i|, which is not below log|K|. At M = N the two are equal, and by Han's
inequality the mean grows with M. The log-likelihood of the subset, times N / M, is unbiased.
"""

from functools import partial

import torch
from torch import Tensor

from lila.augment.noise import Draw
from lila.compare.epochs import Moment, train_by
from lila.compare.system import Conditions, Found
from lila.curvature import Columns, Tape, jacobian
from lila.data.examples import Batch
from lila.laplace.evidence import Evidence

_EXAMPLES = 16  # M
_STEPS_PER_EPOCH = 3


def scaled_rows(tape: Tape, columns: Columns, precisions: dict[str, Tensor]) -> Tensor:
    """Return L' J P^-1/2 of a recorded batch, a row per example and column: shape (b k, P)."""
    inputs = tape.inputs()
    scales = [layer.join(precisions).rsqrt() for layer in tape.layers]  # (r, o, d) each
    rows = []
    for column in columns.u.unbind(1):
        gradients = tape.pull(column)
        blocks = [jacobian(g, a) * scale for g, a, scale in zip(gradients, inputs, scales, strict=True)]
        rows.append(torch.cat([block.flatten(1) for block in blocks], dim=1))  # (b, P)
    return torch.stack(rows, dim=1).flatten(0, 1)


def log_det_of_kernel(rows: Tensor) -> Tensor:
    """Return log|I + R R'| for rows R, in float64."""
    kernel = (rows @ rows.mT).double()
    factor = torch.linalg.cholesky(kernel + torch.eye(len(kernel), dtype=kernel.dtype, device=kernel.device))
    return 2 * factor.diagonal().log().sum()


def evidence_bound(evidence: Evidence, batch: Batch, examples: int, draw: Draw) -> Tensor:
    """Return the bound on the evidence of all examples that some of them give, differentiable in the hyperparameters.

    Args:
        evidence: the evidence, with full curvature; the matrix itself is never made.
        batch: the examples of the subset.
        examples: N, the number of all examples.
        draw: the noise.
    """
    log_likelihoods, tape, columns = evidence.gradient_pass(draw).recorded(batch, differentiable=True)
    rows = scaled_rows(tape, columns, evidence.prior.precisions())
    of_subset = log_likelihoods.sum() - 0.5 * log_det_of_kernel(rows)
    weights = {name: weight.detach() for name, weight in evidence.model.net.named_parameters()}
    return examples / len(batch.y) * of_subset + evidence.prior.weight_penalty(weights)


def bound_gradient(moment: Moment, subset: int) -> tuple[Tensor, ...]:
    """Return the gradient of the negative bound, per example, in eta and the log-precisions."""
    state, (x, y), count = moment.state, moment.train, len(moment.train[0])
    chosen = moment.draw.subset(count, min(subset, count))
    evidence = Evidence(state.model, state.likelihood, state.prior, structure="full")
    bound = evidence_bound(evidence, Batch(chosen, x[chosen], y[chosen]), count, moment.draw)
    return torch.autograd.grad(-bound / count, moment.learned)


def run_kernel_bound(conditions: Conditions) -> Found:
    """Learn ranges and prior by the gradient of the bound while the weights train."""
    gradient = partial(bound_gradient, subset=_EXAMPLES)
    return train_by(conditions, gradient, conditions.train, steps_per_epoch=_STEPS_PER_EPOCH)
