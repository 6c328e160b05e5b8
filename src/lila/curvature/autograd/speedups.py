"""The switches of the shortcuts that the passes over the data take.

The equations need none of them. Each shortcut stands in a module of its own and leaves every value and every gradient
as it is, up to rounding; `tests/curvature/test_speedups.py` compares the results with each of them switched off.
"""

from dataclasses import dataclass, fields

from lila._util.arguments import suggests_arguments


@suggests_arguments
@dataclass(frozen=True, kw_only=True)
class Speedups:
    """Which shortcuts a pass takes: all of them by default.

    Attributes:
        channels_last: lay images out channels last for convolutions on a CPU (`lila.model.layout`).
        lean_operations: replace convolutions and tanh by versions that are cheaper to differentiate twice
            (`lila.curvature.autograd.lean_operations`).
        shared_gradients: compute the gradient at the output of a layer and of a bias behind it once for both
            (`lila.curvature.autograd.shared_gradients`).
        constant_jacobian: treat the Jacobian of a network that is linear between its kinks as a constant
            (`lila.curvature.autograd.constant_jacobian`).
        linear_head: average over the views before the linear layer that a network ends in
            (`lila.curvature.autograd.linear_head`).
        column_chunks: multiply the gradients of several columns at a time (`lila.curvature.autograd.column_chunks`).
    """

    channels_last: bool = True
    lean_operations: bool = True
    shared_gradients: bool = True
    constant_jacobian: bool = True
    linear_head: bool = True
    column_chunks: bool = True

    @classmethod
    def none(cls) -> "Speedups":
        """Return the switches with every shortcut off."""
        return cls(**{field.name: False for field in fields(cls)})


ALL_SPEEDUPS = Speedups()
