"""Whether fresh copies of a network agree: whatever they were given first, and in either mode.

A network may set itself up by its first input, and keep that in an attribute that is no buffer. All later outputs of
one copy then agree with each other, and only another copy shows it.
"""

import torch
from torch import Tensor, nn

from lila.curvature.audit.subject import Subject, differ, memory_error
from lila.curvature.layers import Layer
from lila.errors import LilaError, ModelError

_FAILURES = (RuntimeError, IndexError, ValueError, TypeError)
"""What operations raise for a shape that they do not expect."""


@torch.no_grad()
def check_fresh(net: nn.Module, layers: tuple[Layer, ...], views: Tensor) -> None:
    """Raise ModelError if the first input, or the mode, decides what a network computes, or if it needs a batch.

    Args:
        net: the network, of which copies are run; without copies there is nothing to compare.
        layers: its layers.
        views: inputs on which it runs.
    """
    first = Subject.of(net, layers, views)
    if not first.is_copy:
        return
    _run_alone(first)
    later = first.run(views[-1:])
    if differ(Subject.of(net, layers, views).run(views[-1:]), later, first):
        raise memory_error()
    evaluated = Subject.of(net, layers, views)
    evaluated.net.eval()
    if differ(evaluated.run(views), Subject.of(net, layers, views).run(views), first):
        raise ModelError(
            "The network computes something else after eval(), so predictions would be made by another network than "
            "the one that is trained, and whose evidence this is. Let it do the same in both modes, or give it in the "
            "mode in which it will be used."
        )


def _run_alone(subject: Subject) -> None:
    """Run the network on a single input."""
    try:
        subject.run(subject.views[:1])
    except _FAILURES as error:
        if isinstance(error, LilaError):
            raise
        raise ModelError(
            f"The network runs on several inputs but not on a single one: {str(error).splitlines()[0]} A squeeze() "
            "without a dimension is a common cause, as it also takes away the dimension of a batch of one."
        ) from error
