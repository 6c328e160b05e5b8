"""Whether a network is linear between its kinks, read off the graph that autograd recorded when it ran.

Rectified units, max pooling, convolutions and linear layers have no second derivative. In a network of such parts the
Jacobian J does not change with the input (but for the kinks, which have measure zero), and the pulled-back columns
g = J' u depend on the hyperparameters through u alone. Their gradient then is J times a cotangent, and what autograd
would do beyond that is to add zeros. (A unit that begins to fire changes J at once. That no derivative sees, ours or
autograd's; it is small when many units share the curvature.)
"""

from torch import Tensor
from torch.autograd.graph import Node

from lila.curvature.autograd.edges import walk

_SUMS = {
    *("AddBackward0", "SubBackward0", "NegBackward0", "CatBackward0", "StackBackward0", "CloneBackward0"),
    *("SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1"),
    *("AvgPool2DBackward0", "AdaptiveAvgPool2DBackward0", "ConstantPadNdBackward0"),
    *("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0"),
    *("AsStridedBackward0", "AsStridedBackward1"),
    *("PermuteBackward0", "TransposeBackward0", "TBackward0", "SliceBackward0", "SelectBackward0"),
    *("SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"),
    *("ReluBackward0", "LeakyReluBackward0", "LeakyReluBackward1", "HardtanhBackward0", "ClampBackward1"),
    *("ThresholdBackward0", "ThresholdBackward1", "MaxPool2DWithIndicesBackward0"),
}
"""Linear, or linear between kinks, in all their inputs together."""

_PRODUCTS = {
    *("MulBackward0", "DivBackward0", "AddmmBackward0", "MmBackward0", "BmmBackward0", "MvBackward0"),
    *("ConvolutionBackward0", "_ConstantConvolutionBackward", "PreluKernelBackward0"),
}
"""Linear in one input if the others are constants; a quotient in its numerator."""


def linear_between_kinks(outputs: Tensor, start: Node | None) -> bool:
    """Whether outputs are linear between kinks, as far as the names of the recorded operations tell.

    Args:
        outputs: of the network.
        start: the node that made the network's inputs, from before it ran, as it may change them in place.
    """
    for node in walk(outputs, start):
        if node.name() not in _SUMS:
            by = [position for position, (source, _) in enumerate(node.next_functions) if source is not None]
            if node.name() not in _PRODUCTS or len(by) > 1 or (node.name() == "DivBackward0" and by != [0]):
                return False
    return True
