"""When hyper-steps come and what they move: the rules by which `HyperOptimiser` goes through a run.

A run goes through three phases. At first only the weights are trained, and the curvature is accumulated. When the
network begins to explain the data, the prior precisions follow the evidence. They need no data once the curvature is
decomposed, so they reach their fixed point at once. When the network explains half of what can be explained, the ranges
follow too. A network that has learned nothing loses nothing by averaging over any transformation, so ranges that move
earlier run away.
"""

from math import ceil

import torch
from torch import Tensor

from lila.training.optimisers import cosine

LEAST_INTERVAL = 5
"""The fewest hyper-steps from one decomposition to the next."""

_MOST_WINDOW = 10_000  # examples that the running average is worth, or one epoch if that is less
_FORGET = 0.5  # share of the examples so far that the running average is worth at most: early factors mislead
_VIEWS = 1.0  # in the hyper-steps of an epoch, per example: half as many as in the steps of the weights
_LEAST_VIEWS = 8  # that a hyper-step counts for, per example: with fewer, its time goes to the curvature of the layers
_ENOUGH_STEPS = 600  # hyper-steps of a run that let ranges settle: in short runs they come more often
_LEAST_DECOMPOSITIONS = 12  # of a run, about: short runs decompose more often than the rules below ask for
_REFRESHED = 1 / 16  # share of the window that is new at a decomposition
_DECOMPOSING = 0.15  # share of a run's time that decompositions take at most
_PRIOR_BELOW, _PRIOR_LATEST = 0.75, 0.1  # share unexplained, and share of the run, from which the prior follows
_RANGES_BELOW, _RANGES_LATEST = 0.5, 0.375  # the same for the ranges
_HYPER_COST = 5.0  # forward passes that take as long as a hyper-step, per view; steps of the weights cost about as much
_HOLD = 0.3  # share of the run after which the learning rate of the ranges decays


def interval(steps: int, batch_size: int, hyper_batch: int, samples: int) -> int:
    """Return the batches from one hyper-step to the next, such that each example gets about one view in hyper-steps.

    A hyper-step with few views, as in runs without invariance, counts for eight, as it costs about as much. If that
    would make too few hyper-steps in the whole run, they come more often, up to every second batch.
    """
    by_cost = round(hyper_batch * max(samples, _LEAST_VIEWS) / (_VIEWS * batch_size))
    return max(min(by_cost, max(round(steps / _ENOUGH_STEPS), 2)), 1)


def chosen_examples(count: int, taken: int, size: int, share: range) -> Tensor:
    """Return which examples of a batch a hyper-step takes: they are spread over the batch, and others each time.

    Args:
        count: how many it takes.
        taken: the number of batches so far.
        size: the number of examples of the batch.
        share: which of these this process has; the indices are within its share.
    """
    chosen = (torch.arange(count) * (size // count) + taken * count) % size
    return chosen[(chosen >= share.start) & (chosen < share.stop)] - share.start


def window_size(examples: int, seen: float, count: int) -> float:
    """Return the number of examples that the running average is worth.

    Args:
        examples: the number of training examples.
        seen: the examples in hyper-steps so far.
        count: the examples in this hyper-step.
    """
    return max(min(examples, _MOST_WINDOW, _FORGET * seen), count)


def most_interval(steps: int, every: int) -> int:
    """Return the most hyper-steps from one decomposition to the next, so that short runs have enough of them."""
    return max(steps // every // _LEAST_DECOMPOSITIONS, 1)


def decomposition_interval_of_long_run(cost: float, examples: int, hyper_batch: int, samples: int) -> int:
    """Return the hyper-steps from one decomposition to the next in a long run.

    Args:
        cost: the cost of a decomposition, in forward passes of the network on one view.
        examples: the number of training examples.
        hyper_batch: the examples of a hyper-step.
        samples: the views of each of them.
    """
    by_time = cost / (2 * _HYPER_COST * hyper_batch * samples * _DECOMPOSING)
    by_window = _REFRESHED * min(examples, _MOST_WINDOW) / hyper_batch
    return max(ceil(by_time), ceil(by_window), LEAST_INTERVAL)


def prior_may_move(unexplained: float, progress: float) -> bool:
    """Return whether prior precisions follow the evidence, at a share unexplained and a share of the run."""
    return unexplained < _PRIOR_BELOW or progress >= _PRIOR_LATEST


def ranges_may_move(unexplained: float, progress: float) -> bool:
    """Return whether ranges follow the evidence, at a share unexplained and a share of the run."""
    return unexplained < _RANGES_BELOW or progress >= _RANGES_LATEST


def decayed(start: float, end: float, progress: float) -> float:
    """Return a learning rate at a share of the run: it is constant at first, then decays by a cosine."""
    return cosine(start, end, max(progress - _HOLD, 0.0) / (1 - _HOLD))
