"""What an augmentation distribution is: a differentiable map from noise to a transformation of the input.

Indices used throughout: b examples, s samples, k noise dimensions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn

from lila.errors import ArgumentError


class Augmentation(nn.Module, ABC):
    """A distribution p(x' | x, eta), written as x' = g(x, eps; eta) with eps uniform on [-1, 1]^k.

    Drawing eps is not its business: noise is an argument. Its parameters are the hyperparameters that the evidence
    learns; there may be several tensors of them.

    Attributes:
        noise_dim: k, the number of noise values that one transformation takes.
    """

    noise_dim: int

    @abstractmethod
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        """Transform each input once per noise vector.

        Args:
            x: inputs, shape (b, *shape).
            noise: values in [-1, 1], shape (b, s, k).

        Returns:
            The transformed inputs, shape (b, s, *shape).
        """

    @property
    def ranges(self) -> Mapping[str, float]:
        """The learned range of each transformation by name, in its generator's own unit; never negative."""
        return {}

    def readable_ranges(self, shape: tuple[int, ...]) -> Mapping[str, str]:
        """The learned ranges in a person's units, for inputs of the given shape (without the batch dimension)."""
        return {name: f"±{value:.3g}" for name, value in self.ranges.items()}

    @property
    def shares(self) -> Mapping[str, float]:
        """Each range as a share, in [0, 1], of a very large one; for bars in tables."""
        return {name: min(value, 1.0) for name, value in self.ranges.items()}

    def saturate_(self) -> None:
        """Bring parameters that left their sensible range back to its border; called after each hyper-step."""

    def check_noise(self, x: Tensor, noise: Tensor) -> None:
        """Raise unless noise has one row of k values per example and sample."""
        if noise.dim() != 3 or noise.shape[0] != x.shape[0] or noise.shape[2] != self.noise_dim:
            raise ArgumentError(
                f"{type(self).__name__} needs noise of shape ({x.shape[0]}, samples, {self.noise_dim}) for inputs of "
                f"shape {tuple(x.shape)}, but got {tuple(noise.shape)}."
            )
