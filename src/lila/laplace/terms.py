"""What an estimate of the evidence consists of: its terms, and what its gradient follows from."""

from dataclasses import KW_ONLY, dataclass, field

from lila.augment.noise import Draw
from lila.curvature import Structure
from lila.laplace.fingerprint import Fingerprint


@dataclass(frozen=True)
class Terms:
    """The terms of the evidence, in nats for the whole data set.

    Attributes:
        log_likelihood: sum_n log p(y_n | f_hat(x_n)), how well the data are fitted.
        weight_penalty: -1/2 sum delta (theta - mu)^2, how far the weights are from the prior's mean mu.
        occam_factor: -1/2 log|I + diag(delta)^-1 H|, how far the data narrow the weights down.
        standard_error: the standard error of their sum that comes from using only some of the examples; 0 if all were
            used.
    """

    log_likelihood: float
    weight_penalty: float
    occam_factor: float
    standard_error: float = field(default=0.0, kw_only=True)

    @property
    def value(self) -> float:
        """The estimate of the log marginal likelihood: the sum of the three terms."""
        return self.log_likelihood + self.weight_penalty + self.occam_factor

    @property
    def complexity(self) -> float:
        """What the evidence takes off the fit: the weight penalty and the Occam factor together, never positive."""
        return self.weight_penalty + self.occam_factor

    def per_example(self, examples: int) -> str:
        """Return the evidence in words: "evidence -0.800 nats per example = -0.230 fit - 0.570 complexity".

        Args:
            examples: the number of examples that the terms are sums over.
        """
        error = f" ± {self.standard_error / examples:.3f}" if self.standard_error else ""
        return (
            f"evidence {self.value / examples:.3f}{error} nats per example = {self.log_likelihood / examples:.3f} fit "
            f"- {-self.complexity / examples:.3f} complexity"
        )

    def terms(self) -> dict[str, float]:
        """Return the three terms by name."""
        return {
            "log_likelihood": self.log_likelihood,
            "weight_penalty": self.weight_penalty,
            "occam_factor": self.occam_factor,
        }


@dataclass(frozen=True, eq=False)
class Estimate(Terms):
    """An estimate of the evidence, and what its gradient follows from.

    Attributes:
        curvature: the curvature of the negative log-likelihood.
        draw: the noise under which it was estimated; None if it comes from many draws.
        examples: the number of examples of its data; None if it comes from running averages.
        made_of: what tells the weights and hyperparameters that it was made with from others; None if it comes from
            running averages.
    """

    _: KW_ONLY
    curvature: Structure
    draw: Draw | None
    examples: int | None = None
    made_of: Fingerprint | None = field(default=None, repr=False)
