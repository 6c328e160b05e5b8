"""What a training run leaves: the invariant network, what it learned, and how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lila.evidence import Estimate
from lila.invariant import InvariantModel
from lila.likelihood import Likelihood
from lila.prior import GaussianPrior
from lila.training.settings import Settings


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        settings: how it was trained.
        model: the invariant network.
        likelihood: of the targets.
        prior: over the weights.
        history: one record per epoch.
        evidence: the final estimate with its terms; None for a method that has no evidence.
        test: scores on the test data, if there was any.
        shape: of one input.
    """

    settings: Settings
    model: InvariantModel
    likelihood: Likelihood
    prior: GaussianPrior
    history: list[dict[str, Any]]
    evidence: Estimate | None
    test: dict[str, float] | None
    shape: tuple[int, ...]

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned range of each transformation, in its generator's own unit."""
        return self.model.augmentation.ranges

    def summary(self) -> str:
        """What was learned, in a few lines."""
        lines = [f"{self.settings.method}, {len(self.history)} epochs"]
        readable = self.model.augmentation.readable_ranges(self.shape)
        width = max(map(len, readable), default=0)
        lines += [f"  {name:<{width}}  {text}" for name, text in readable.items()]
        if self.evidence is not None:
            e = self.evidence
            lines.append(
                f"  evidence {e.value:.1f} nats = {e.log_likelihood:.1f} log-likelihood {e.log_prior:+.1f} log prior "
                f"{e.log_det:+.1f} log-determinant"
            )
        if self.test is not None:
            lines.append("  test " + ", ".join(f"{name.replace('_', ' ')} {v:.4g}" for name, v in self.test.items()))
        return "\n".join(lines)
