"""Transformations with few outcomes are enumerated, not sampled, so that the gradient in their probabilities is exact.

An augmentation may have noise values that only choose one of a few outcomes, as whether to flip an image
(`Augmentation.outcomes`). For the average over the views of an example, such noise is not drawn: view s is given the
s-th combination of outcomes, over and over again, and counts by the probability of its combination,

    f_hat = sum_s w_s f(x_s),    w_s = p(combination of view s) / (number of views that have it).

The weights sum to 1. Every combination occurs, so for fixed noise of the other transformations, f_hat is the exact
average over the outcomes and a smooth function of their probabilities, also where a probability is 0.

Noise in [-1, 1] draws an outcome by its probability; the value `FIRST_OUTCOME` + k asks for the outcome k.
"""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from lila.augment.base import FIRST_OUTCOME, Augmentation


def combinations(augmentation: Augmentation) -> int:
    """Return the number of combinations of outcomes, 1 if an augmentation has no outcomes to enumerate."""
    return prod(augmentation.outcomes.values())


def enumerated(noise: Tensor, outcomes: Mapping[int, int]) -> Tensor:
    """Return noise (b, s, k) whose values for outcomes ask for each combination of outcomes in turn.

    Args:
        noise: the noise of all views.
        outcomes: the number of outcomes by noise dimension.
    """
    if not outcomes:
        return noise
    chosen, view = noise.clone(), torch.arange(noise.shape[1], device=noise.device)
    for dimension, count in outcomes.items():
        chosen[..., dimension] = FIRST_OUTCOME + (view % count).to(noise.dtype)
        view = view // count
    return chosen


def view_weights(augmentation: Augmentation, noise: Tensor) -> Tensor | None:
    """Return the weight of each view in the average over the views of its example, or None if all are alike.

    Args:
        augmentation: the augmentation.
        noise: the noise of all views, shape (b, s, k), in which each combination of outcomes occurs if any is
            asked for.

    Returns:
        The weights, shape (b, s), differentiable in the probabilities of the outcomes.
    """
    probability = augmentation.outcome_probability(noise)
    if probability is None:
        return None
    asked = noise[..., list(augmentation.outcomes)]
    same = (asked.unsqueeze(2) == asked.unsqueeze(1)).all(-1).sum(-1)  # views with the same combination, (b, s)
    return probability / same
