"""Checks of what the Laplace approximation is made of and given: model, likelihood, prior, and inputs."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lila.augment.noise import NoiseName
from lila.curvature import Structure
from lila.errors import ArgumentError, DataError
from lila.model.checks import check_likelihood, described
from lila.model.invariant import InvariantModel
from lila.model.prior import GaussianPrior


def check_parts(model: Any, likelihood: Any, prior: Any) -> None:
    """Raise ArgumentError unless these are an invariant network, a likelihood and a prior."""
    if not isinstance(model, InvariantModel):
        raise ArgumentError(
            f"The model must be a lila.InvariantModel, but is {described(model)}. Wrap the network: "
            "lila.InvariantModel(net, lila.Affine2d()), or lila.InvariantModel(net, lila.Compose(), samples=1) if it "
            "is not to be averaged over transformations."
        )
    check_likelihood(likelihood)
    if not isinstance(prior, GaussianPrior):
        raise ArgumentError(f"The prior must be a lila.GaussianPrior(net), but is {described(prior)}.")


def check_inputs(model: InvariantModel, x: Tensor) -> None:
    """Raise DataError unless inputs have the type of the network's weights."""
    dtype = next(model.net.parameters()).dtype
    if x.dtype != dtype:
        raise DataError(
            f"The inputs have type {x.dtype} but the network's weights {dtype}. Convert the inputs: x.to({dtype})."
        )


def check_unbiased(model: InvariantModel, *, averages_outputs: bool) -> None:
    """Raise ArgumentError unless the bias of averages over the views of a model can be taken off."""
    if not averages_outputs:
        raise ArgumentError(
            "unbiased=True takes off the bias that comes from averaging outputs over views, but with "
            "average='log-likelihood' outputs are not averaged. Use average='function', or unbiased=False."
        )
    if model.noise is not NoiseName.INDEPENDENT:
        raise ArgumentError(
            f"unbiased=True needs independent views, but the model's noise is {model.noise.value!r}. The mean "
            "of stratified views varies less than V / S, where V is the covariance of a view, so that the "
            "correction would overshoot. Use noise='independent' (--noise independent), in InvariantModel or fit."
        )
    if model.augmentation.outcomes:
        raise ArgumentError(
            "unbiased=True needs views that count alike, but the outcomes of this augmentation, such as flipped or "
            "not, are enumerated and weighted by their probabilities. Use unbiased=False."
        )
    if model.samples < 2:
        raise ArgumentError(
            "unbiased=True estimates how much views differ, so it needs at least 2 samples, but the model has "
            f"{model.samples}. Use InvariantModel(..., samples=2) or more."
        )


def check_prior(prior: GaussianPrior, net: nn.Module, structure: type[Structure]) -> None:
    """Raise ArgumentError unless a prior is one over the trainable weights of a network that a structure takes."""
    structure.check_prior(prior.structure)
    trainable = {name for name, p in net.named_parameters() if p.requires_grad}
    differing = sorted(trainable ^ set(prior.weight_names))
    if differing:
        raise ArgumentError(
            f"The prior and the network disagree on which weights are trainable: {differing}. Make the "
            "GaussianPrior from this network, after freezing what is to be frozen."
        )


def check_placement(net: nn.Module, hyperparameters: Mapping[str, nn.Parameter]) -> None:
    """Raise ArgumentError unless the hyperparameters have the device and the type of the network."""
    weight = next(net.parameters())
    for name, parameter in hyperparameters.items():
        if (parameter.device, parameter.dtype) != (weight.device, weight.dtype):
            raise ArgumentError(
                f"{name} is {parameter.dtype} on {parameter.device}, but the network is {weight.dtype} on "
                f"{weight.device}. Move it: {name.partition('.')[0]}.to({str(weight.device)!r}, {weight.dtype})."
            )
