"""Ranges by the gradient of a validation loss, through the weights by implicit differentiation.

Lorraine, Vicol and Duvenaud, "Optimizing Millions of Hyperparameters by Implicit Differentiation", AISTATS 2020. With
the training loss L_T(w, h) of weights w and hyperparameters h, and the loss L_V of data that is held out, the weights
at which L_T is smallest respond to h, so that

    d L_V / d h = dL_V/dh - dL_V/dw [d^2 L_T / dw dw']^-1 d^2 L_T / dw dh'.

The inverse is applied to one vector, by products with the Hessian alone: by a few terms of the Neumann series, as in
the paper, or by a few iterations of conjugate gradients, which come closer with as many products. Here h are eta and
the prior's log-precisions. The first term is there because eta also transforms the images that are predicted.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from lila.augment.noise import Draw
from lila.compare.epochs import Moment, train_by
from lila.compare.system import Conditions, Found, Pair
from lila.data.examples import Batch
from lila.laplace.log_likelihood import log_likelihoods
from lila.model.invariant import InvariantModel
from lila.training.state import State

Vectors = Sequence[Tensor]
"""A vector over all weights, as one tensor per weight."""
Product = Callable[[Vectors], Vectors]
"""Multiplies a vector by the Hessian."""
Loss = Callable[[], Tensor]
"""Computes a loss, with a graph to the weights and the hyperparameters."""

_ITERATIONS = 5  # of conjugate gradients
_EXAMPLES = 100  # of the training data, for products with the Hessian
_STEPS_PER_EPOCH = 4


def neumann(product: Product, v: Vectors, *, terms: int, step: float) -> Vectors:
    """Return the first terms of the series  H^-1 v = step sum_j (I - step H)^j v.

    Args:
        product: the product with H.
        v: the vector.
        terms: the number of terms; the first is step v.
        step: a number below 2 / (the largest eigenvalue of H), for which the series converges.
    """
    power, total = list(v), list(v)
    for _ in range(terms - 1):
        power = [p - step * h for p, h in zip(power, product(power), strict=True)]
        total = [t + p for t, p in zip(total, power, strict=True)]
    return [step * t for t in total]


def conjugate_gradients(product: Product, v: Vectors, *, iterations: int) -> Vectors:
    """Return H^-1 v by conjugate gradients, which are exact after as many iterations as H has eigenvalues.

    They stop at a direction of no or negative curvature, which the Hessian of a network may have, and where H^-1 v is
    no response of the weights. If the first direction is one, v itself is returned: the first term of Neumann's series.
    """
    x, residual = [torch.zeros_like(part) for part in v], list(v)
    direction, squares = list(v), _inner(v, v)
    tiny = torch.finfo(v[0].dtype).eps ** 2 * squares
    for iteration in range(iterations):
        moved = product(direction)
        curvature = _inner(direction, moved)
        if curvature <= 0:
            return list(v) if iteration == 0 else x
        length = squares / curvature
        x = [a + length * b for a, b in zip(x, direction, strict=True)]
        residual = [a - length * b for a, b in zip(residual, moved, strict=True)]
        before, squares = squares, _inner(residual, residual)
        if squares <= tiny:
            break
        direction = [a + squares / before * b for a, b in zip(residual, direction, strict=True)]
    return x


def _inner(one: Vectors, two: Vectors) -> Tensor:
    return torch.stack([(a * b).sum() for a, b in zip(one, two, strict=True)]).sum()


def hypergradient(
    train_loss: Loss,
    validation_loss: Loss,
    weights: Sequence[Tensor],
    learned: Sequence[Tensor],
    inverse: Callable[[Product, Vectors], Vectors],
) -> list[Tensor]:
    """Return the gradient of the validation loss in the hyperparameters, through the weights that minimise another.

    Args:
        train_loss: the loss that the weights minimise.
        validation_loss: the loss that is differentiated.
        weights: the weights, at or near the minimum.
        learned: the hyperparameters.
        inverse: applies the inverse of the Hessian to a vector, by products.
    """
    of_validation = torch.autograd.grad(validation_loss(), [*weights, *learned], materialize_grads=True)
    v, direct = of_validation[: len(weights)], of_validation[len(weights) :]
    of_training = torch.autograd.grad(train_loss(), weights, create_graph=True)

    def product(vector: Vectors) -> Vectors:
        return torch.autograd.grad(of_training, weights, vector, retain_graph=True)

    response = inverse(product, v)
    mixed = torch.autograd.grad(of_training, learned, response, materialize_grads=True)
    return [a - b for a, b in zip(direct, mixed, strict=True)]


def mean_loss(state: State, model: InvariantModel, batch: Batch, draw: Draw) -> Tensor:
    """Return the mean negative log-likelihood of a batch."""
    return -log_likelihoods(model, state.likelihood, batch, draw)[1].mean()


def validation_gradient(moment: Moment, held_out: Pair) -> list[Tensor]:
    """Return the gradient of the validation loss in eta and the log-precisions.

    Products with the Hessian are over some of the training data; all of the held-out data makes the validation loss.
    """
    state, (x, y), count = moment.state, moment.train, len(moment.train[0])
    chosen = moment.draw.subset(count, min(_EXAMPLES, count))
    some = Batch(chosen, x[chosen], y[chosen])
    held = Batch(torch.arange(len(held_out[0])) + count, *held_out)
    weights = dict(state.model.net.named_parameters())

    def train_loss() -> Tensor:
        fit = mean_loss(state, state.weights_model, some, moment.draw)
        return fit - state.prior.weight_penalty(weights) / count

    def validation_loss() -> Tensor:
        return mean_loss(state, state.model, held, moment.draw)

    inverse = partial(conjugate_gradients, iterations=_ITERATIONS)
    return hypergradient(train_loss, validation_loss, [*weights.values()], moment.learned, inverse)


def run_implicit(conditions: Conditions) -> Found:
    """Hold some data out, and learn ranges and prior by the gradient of its loss while the weights train on the rest.

    The network is the one that was trained on the rest.
    """
    train, held_out = conditions.held_out()
    gradient = partial(validation_gradient, held_out=held_out)
    return train_by(conditions, gradient, train, steps_per_epoch=_STEPS_PER_EPOCH)
