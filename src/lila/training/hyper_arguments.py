"""Checks of what a `HyperOptimiser` is made of, and of the batches that it is given."""

from math import inf
from typing import Any

from torch import Tensor

from lila._util.choices import check_count, is_number
from lila.errors import ArgumentError


def check_counts(**counts: Any) -> None:
    """Raise ArgumentError unless these are whole numbers of at least 1."""
    for name, value in counts.items():
        check_count(name, value)


def check_when(every: Any, burn_in: Any, seed: Any, steps: int) -> None:
    """Raise ArgumentError unless hyper-steps every so many batches, after a burn-in, leave something to learn."""
    check_count("every", every, optional=True)
    for name, number in (("burn_in", burn_in), ("seed", seed)):
        if not isinstance(number, int | None) or (number or 0) < 0:
            raise ArgumentError(f"{name} must be a whole number of at least 0, but is {number!r}.")
    if every is not None and every >= max(steps - (burn_in or 0), 2):
        raise ArgumentError(
            f"With a hyper-step after every {every} batches, of {steps} in all and {burn_in or 0} before ranges "
            "move, nothing would be learned. Make hyper-steps more often (hyper_every), or train for longer."
        )


def check_few(few: Any) -> None:
    """Raise ArgumentError unless these are the inputs and targets of a few examples."""
    if not (isinstance(few, tuple) and len(few) == 2 and all(isinstance(part, Tensor) for part in few)):
        raise ArgumentError(f"`few` must be a pair of tensors, inputs and targets, but is {type(few).__name__}.")
    if not len(few[0]) or len(few[0]) != len(few[1]):
        raise ArgumentError(f"`few` must be some inputs and as many targets, not {len(few[0])} and {len(few[1])}.")


def check_batch(x: Tensor, y: Tensor, index: Tensor | None, size: int, offset: int) -> None:
    """Raise ArgumentError unless inputs, targets and indices make a batch, or a share of one of a given size."""
    if len(x) != len(y) or not size or (index is not None and len(index) != len(x)):
        raise ArgumentError(
            "A batch needs at least one example, and as many inputs as targets and indices, but there are "
            f"{len(x)} inputs, {len(y)} targets and {'no' if index is None else len(index)} indices."
        )
    if not 0 <= offset <= size - len(x):
        raise ArgumentError(f"A batch of {size} examples has no share of {len(x)} examples after the first {offset}.")
    if index is not None and (index.is_floating_point() or bool((index < 0).any())):
        raise ArgumentError("Indices of examples are whole numbers of at least 0.")


def check_rates(**rates: Any) -> None:
    """Raise ArgumentError unless learning rates are positive and finite; the last one of a run may be 0."""
    for name, rate in rates.items():
        if not is_number(rate) or not (0 < rate < inf or (rate == 0 and name.endswith("_end"))):
            raise ArgumentError(f"{name} must be positive and finite, but is {rate!r}.")
