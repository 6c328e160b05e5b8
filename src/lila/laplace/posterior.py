"""The Laplace posterior over the weights of an invariant network, and what it predicts.

    q(theta) = N(theta*, Sigma),    Sigma = (H + diag(delta))^-1,

with the curvature H in any structure. Predictions use the network linearised at theta* (the GLM predictive), whose
Jacobian is that of f_hat, averaged over samples:

    f(x) ~ N(f_hat(x), J_hat Sigma J_hat').
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lila._util.choices import choose
from lila.curvature import Samples, Structure, jacobian, record
from lila.errors import ArgumentError
from lila.laplace.checks import check_inputs, check_parts
from lila.model.checks import described
from lila.model.invariant import InvariantModel
from lila.model.likelihood import Likelihood
from lila.model.prior import GaussianPrior


class Link(StrEnum):
    """How uncertain logits become probabilities."""

    PROBIT = "probit"
    MONTE_CARLO = "monte-carlo"


@dataclass(frozen=True)
class Posterior:
    """The Laplace approximation of the posterior over the weights.

    Attributes:
        model: the invariant network, at the mode.
        likelihood: of the targets.
        prior: over the weights.
        curvature: of the negative log-likelihood, as in `Estimate.curvature`.
    """

    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    curvature: Structure

    def __post_init__(self) -> None:
        check_parts(self.model, self.likelihood, self.prior)
        if not isinstance(self.curvature, Structure):
            raise ArgumentError(
                f"The curvature must be that of an estimate, evidence.estimate(data).curvature, but is "
                f"{described(self.curvature)}."
            )

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (b, c) and covariance (b, c, c) of the linearised network's outputs.

        The noise is the fixed set that the network uses in evaluation mode.
        """
        check_inputs(self.model, x)
        noise, layers = self.model.fixed_noise(x), self.curvature.layers
        tape = record(self.model, layers, x, noise, Samples.POSITIONS, differentiable=False)
        mean, inputs = tape.outputs.detach(), tape.inputs()
        columns = torch.eye(mean.shape[1], dtype=mean.dtype, device=mean.device)
        rooted = []
        with torch.no_grad():
            for column in columns:
                gradients = tape.pull(column.expand_as(mean))
                J = tuple(jacobian(g, a) for g, a in zip(gradients, inputs, strict=True))  # per layer (b, r, o, d)
                rooted.append(self.curvature.times_root(J, self.prior.precisions()))  # (b, P)
        R = torch.stack(rooted, dim=1)  # (b, c, P)
        return mean, R @ R.mT

    def predict(
        self, x: Tensor, link: str | Link = "probit", samples: int = 1000, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the expected prediction as the likelihood defines it, shape (b, c).

        That is the probability of each class for a `Categorical`, of each label for a `Bernoulli`, and the mean for a
        `Gaussian`.

        Args:
            x: inputs, shape (b, *shape).
            link: "probit" for the closed form, which scales logits by 1 / sqrt(1 + pi/8 var f), "monte-carlo" for an
                average over samples of f.
            samples: the number of samples of f, for "monte-carlo".
            generator: the generator of these samples.
        """
        chosen = choose(Link, link, "link")
        mean, covariance = self.outputs(x)
        draws = None
        if chosen is Link.MONTE_CARLO:
            z = torch.randn(samples, *mean.shape, dtype=mean.dtype, generator=generator).to(mean.device)
            draws = mean + torch.einsum("bce,sbe->sbc", _root(covariance), z)
        return self.likelihood.expected_prediction(mean, covariance.diagonal(dim1=1, dim2=2), draws)

    def variance(self, x: Tensor) -> Tensor:
        """Return the variance of real targets, (b, c): that of the outputs plus that of the noise; `Gaussian` only."""
        noise = self.likelihood.noise_variance()
        if noise is None:
            raise ArgumentError("Only real targets (a Gaussian likelihood) have a variance; see predict and outputs.")
        return self.outputs(x)[1].diagonal(dim1=1, dim2=2) + noise

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Draw weights from the posterior and return them by name, each of shape (count, *weight).

        Weights that the posterior is not over are left out.
        """
        weights = {name: p.detach() for name, p in self.model.net.named_parameters()}
        layers = self.curvature.layers
        like = next(iter(weights.values()))
        z = torch.randn(count, sum(layer.size for layer in layers), dtype=like.dtype, generator=generator)
        shifts = self.curvature.root_times(z.to(like.device), self.prior.precisions())  # per layer (count, r, o, d)
        drawn: dict[str, Tensor] = {}
        for layer, shift in zip(layers, shifts, strict=True):
            per_draw = [layer.split(block) for block in shift]
            drawn |= {name: weights[name] + torch.stack([blocks[name] for blocks in per_draw]) for name in per_draw[0]}
        return drawn


def _root(covariance: Tensor) -> Tensor:
    """Return a symmetric root of positive semi-definite matrices."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT
