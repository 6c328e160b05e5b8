"""Indices that are spread over a data set."""

import torch
from torch import Tensor


def spread_indices(total: int, most: int) -> Tensor:
    """Return at most `most` of the indices 0 ... total - 1 in even steps, the first and the last among them.

    A data set may be sorted by class, so that its first examples do not stand for all.
    """
    count = min(total, most)
    return torch.arange(count) * (total - 1) // max(count - 1, 1)
