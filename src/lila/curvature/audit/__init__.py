"""A check, on a few inputs, that a network is what the curvature takes it for.

The evidence of a network is right if the output for an input depends on that input and the weights alone, and if the
inputs and output gradients of the layers account for the gradient of every weight. The audit runs the network on a few
inputs, alone and together, and refuses it with the cause if it finds otherwise:

- `inputs`: augmentations that mix examples, and the choice of the inputs,
- `purity`: random numbers, buffers that change, half precision,
- `arrangement`: rules whose blocks, inputs or output gradients have another shape than they promise,
- `fresh`: outputs that depend on the first input that a network was given, or on its mode,
- `together`: outputs or layers that depend on the other inputs of the batch or on earlier ones,
- `exposure`: attention or parameters without a layer that compute something else when they are recorded,
- `gradients`: weights that do more, or something else, than their layer's rule says,
- `averages`: rules that are not linear,
- `positions`: layers that run for some inputs only; a pass over the data checks this too.

Everything is checked on copies of the network: outputs in its own type, then outputs and gradients in float64, in which
rounding hides nothing and moves no input across a kink; with the present weights, and with disturbed ones, because
initial weights may be zero. `docs/reliability.md` says what an audit cannot see.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointError as RecomputationError

from lila.curvature.audit.arrangement import check_arrangement
from lila.curvature.audit.averages import check_averages
from lila.curvature.audit.exposure import check_exposure
from lila.curvature.audit.fresh import check_fresh
from lila.curvature.audit.gradients import check_gradients, check_memory
from lila.curvature.audit.inputs import audit_inputs, first_views
from lila.curvature.audit.order import check_runs_last
from lila.curvature.audit.positions import Positions
from lila.curvature.audit.purity import check_pure
from lila.curvature.audit.subject import Subject
from lila.curvature.audit.together import check_neighbours, check_together
from lila.curvature.audit.unknown import freeze_unknown, unknown_parameters, warn_of_unknown
from lila.curvature.layers import Layer
from lila.errors import ModelError
from lila.model.invariant import InvariantModel

__all__ = ["Positions", "audit", "check_runs_last", "freeze_unknown", "unknown_parameters", "warn_of_unknown"]

_MOST_TOGETHER = 32  # inputs of the largest batch that is compared with single inputs


def audit(model: InvariantModel, layers: tuple[Layer, ...], x: Tensor, noise: Tensor, at_once: int) -> None:
    """Raise ModelError if the layers do not account for the network's outputs and gradients.

    Args:
        model: the invariant network.
        layers: its layers.
        x: inputs, of which a few are used for all checks, and all of them for whether they influence each other.
        noise: their noise.
        at_once: the number of views that a pass gives to the network at a time.
    """
    check_memory(model.net)
    try:
        _audit(model, layers, x, noise, at_once)
    except RecomputationError as error:
        raise ModelError(
            "The network uses gradient checkpointing (torch.utils.checkpoint), which runs layers a second time in the "
            "backward pass, where their inputs cannot be recorded. Switch it off: the microbatch bounds the memory in "
            "its place."
        ) from error


def _audit(model: InvariantModel, layers: tuple[Layer, ...], x: Tensor, noise: Tensor, at_once: int) -> None:
    views = audit_inputs(model, x, noise, at_once)
    with torch.enable_grad():
        outputs = check_pure(Subject.of(model.net, layers, views))
        if not bool(outputs.isfinite().all()):
            return  # there is nothing to compare; a pass says which term is not finite
        check_fresh(model.net, layers, views)
        check_arrangement(Subject.of(model.net, layers, views))
        check_together(Subject.of(model.net, layers, views), model.net, min(at_once, _MOST_TOGETHER))
        check_neighbours(Subject.of(model.net, layers, first_views(model, x, noise)), min(at_once, _MOST_TOGETHER))
        subject = Subject.precise(model.net, layers, views)
        if subject.views.dtype != views.dtype:
            check_together(subject, model.net)
        check_exposure(subject)
        check_averages(subject)
        check_gradients(subject)
        disturbed = subject.disturbed()
        if disturbed is not None and disturbed.is_finite():
            check_together(disturbed, model.net)
            check_gradients(disturbed)
