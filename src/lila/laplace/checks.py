"""Checks of what the Laplace approximation is made of and given: model, likelihood, prior, and inputs."""

from typing import Any

from torch import Tensor

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
