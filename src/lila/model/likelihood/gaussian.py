"""The likelihood of real targets with Gaussian noise."""

from math import inf, log, pi

import torch
from torch import Tensor, nn

from lila._util.arguments import suggests_arguments
from lila._util.choices import is_number
from lila.errors import ArgumentError, DataError
from lila.model.constant import ConstantAnswer
from lila.model.likelihood.base import Likelihood, check_columns, columns


@suggests_arguments
class Gaussian(Likelihood):
    """Real targets: y = f + noise of standard deviation sigma; Lambda = I / sigma^2.

    Args:
        sigma: the standard deviation from which learning starts.
        outputs: None for one sigma shared by all outputs, or their number for one each.

    Attributes:
        log_sigma: the learned parameter, of shape () or (outputs,).
    """

    def __init__(self, sigma: float = 1.0, outputs: int | None = None) -> None:
        super().__init__()
        if not is_number(sigma) or not 0 < sigma < inf:
            raise ArgumentError(f"sigma is a standard deviation: positive and finite, not {sigma!r}.")
        if outputs is not None and (not isinstance(outputs, int) or outputs < 1):
            raise ArgumentError(
                f"outputs is the number of the network's outputs, or None for one sigma; not {outputs!r}."
            )
        self.log_sigma = nn.Parameter(torch.full(() if outputs is None else (outputs,), log(sigma)))

    def arguments(self) -> dict[str, int | None]:
        """Return the arguments of the constructor that make it again."""
        return {"outputs": len(self.log_sigma) if self.log_sigma.dim() else None}

    @property
    def sigma(self) -> Tensor:
        """The standard deviation of the observation noise."""
        return self.log_sigma.exp()

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        residual = (columns(f, y) - f) / self.sigma
        return (-0.5 * residual**2 - self.log_sigma - 0.5 * log(2 * pi)).sum(1)

    def score(self, f: Tensor, y: Tensor) -> Tensor:
        return (columns(f, y) - f) / self.sigma**2

    def sizes(self, f: Tensor) -> Tensor:
        return (1 / self.sigma**2).expand_as(f)

    def root_times(self, f: Tensor, z: Tensor) -> Tensor:
        return (1 / self.sigma).expand_as(f)[:, :, None] * z

    def sum_of_hessians(self, f: Tensor) -> Tensor:
        return self.sizes(f).sum(0).diag()

    def predict(self, f: Tensor) -> Tensor:
        """Return the mean of the target, which is the output itself."""
        return f

    def expected_prediction(self, mean: Tensor, variance: Tensor, draws: Tensor | None = None) -> Tensor:
        """Return the mean of the outputs: the prediction is linear in them."""
        return mean

    def noise_variance(self) -> Tensor:
        return self.sigma.detach() ** 2

    def misfit(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the squared error, whatever sigma is."""
        return (columns(f, y) - f).square().sum(1)

    def target_sums(self, f: Tensor, y: Tensor) -> Tensor:
        """Return the sum and the sum of squares of the targets of each output, shape (2, c)."""
        targets = columns(f, y)
        return torch.stack([targets.sum(0), targets.square().sum(0)])

    def constant_misfit(self, sums: Tensor, count: float) -> float:
        """Return the variance of the targets, summed over outputs."""
        mean, mean_square = sums / count
        return float((mean_square - mean.square()).clamp(min=0).sum())

    def constant_answer(self, sums: Tensor, count: float) -> ConstantAnswer | None:
        """Return the mean of the targets, with their standard deviation as noise; None if they do not vary.

        There is one standard deviation for all outputs, or one each, as in this likelihood. With these values plugged
        in, the log-likelihood is  -N/2 sum_c (log 2 pi sigma_c^2 + 1).  It stands for the evidence, which is lower by
        some log N nats for each mean and deviation: no prior of theirs is assumed.
        """
        mean, mean_square = sums.double() / count
        variance = (mean_square - mean.square()).clamp(min=0)
        shared = self.log_sigma.dim() == 0
        sigma = (variance.mean().expand_as(variance) if shared else variance).sqrt()
        if not (sigma > 0).all():
            return None
        answer = Gaussian(outputs=len(mean)).to(sums.device, torch.float64)
        answer.load_state_dict({"log_sigma": sigma.log()})
        log_likelihood = -0.5 * count * float((2 * sigma.log() + log(2 * pi) + 1).sum())
        return ConstantAnswer(log_likelihood, mean, answer.requires_grad_(False))

    def check_targets(self, outputs: int, y: Tensor) -> None:
        if self.log_sigma.dim() == 1 and len(self.log_sigma) != outputs:
            raise DataError(f"Gaussian has {len(self.log_sigma)} values of sigma, but the network {outputs} outputs.")
        if not y.is_floating_point():
            raise DataError(f"Gaussian needs real targets, but they have type {y.dtype}. Convert them: y.float().")
        check_columns("Gaussian", outputs, y)
        if not y.isfinite().all():
            raise DataError("The targets contain NaN or infinite values.")
