"""Whether the network computes the same when its attention and its parameters without a layer are recorded."""

from lila.curvature.audit.subject import Subject
from lila.curvature.inside.exposed import exposed
from lila.errors import ModelError


def check_exposure(subject: Subject) -> None:
    """Raise ModelError if the outputs are others when all layers are called as modules."""
    views, weights = subject.views.detach().requires_grad_(), dict(subject.net.named_parameters())
    plain = subject.run(views).detach()
    with exposed(subject.net, subject.layers, weights, views):
        recorded = subject.run(views).detach()
    if bool((recorded - plain).abs().max() > subject.tolerance() * plain.abs().max()):
        raise ModelError(
            "The outputs of the network are others when the projections of its nn.MultiheadAttention, and its "
            "parameters without a layer, are recorded: something replaced what these modules compute, or asks how it "
            "is called. Build the network from nn.Linear and other layers with a rule, or freeze these parameters."
        )
