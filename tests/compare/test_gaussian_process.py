"""The bound of the invariant Gaussian process, beside its exact log marginal likelihood."""

import pytest
import torch
from torch import Tensor

from lila.compare.gaussian_process import Kernel, collapsed_bound, covariances, mean_over_pairs, predictions

COUNT, SAMPLES, SIZE, OUTPUTS = 7, 3, 4, 2


def exact_covariance(kernel: Kernel, one: Tensor, two: Tensor) -> Tensor:
    """The covariance of f at inputs whose views are (n, s, d) and (m, s, d), pair by pair."""
    return torch.stack([torch.stack([kernel(a, b).mean() for b in two]) for a in one])


class Problem:
    """A few inputs with views, and targets."""

    def __init__(self, samples: int) -> None:
        torch.manual_seed(0)
        self.kernel = Kernel(length=1.5, noise=0.2).double()
        self.views = torch.randn(COUNT, samples, SIZE, dtype=torch.float64)
        self.new = torch.randn(2, samples, SIZE, dtype=torch.float64)
        self.y = torch.randn(COUNT, OUTPUTS, dtype=torch.float64)
        self.noise = self.kernel.log_noise.exp()

    def exact(self) -> tuple[float, Tensor, Tensor]:
        """Return the exact log marginal likelihood, and means and variances at new inputs."""
        with torch.no_grad():
            K = exact_covariance(self.kernel, self.views, self.views) + self.noise * torch.eye(COUNT)
            normal = torch.distributions.MultivariateNormal(torch.zeros(COUNT, dtype=torch.float64), K)
            cross = exact_covariance(self.kernel, self.new, self.views)
            variance = exact_covariance(self.kernel, self.new, self.new).diagonal()
            explained = (cross @ K.inverse() * cross).sum(1)
            return float(normal.log_prob(self.y.mT).sum()), cross @ K.inverse() @ self.y, variance - explained


@pytest.mark.parametrize("samples", [1, SAMPLES])
def test_with_all_views_as_inducing_points_the_bound_and_predictions_are_exact(samples: int) -> None:
    problem = Problem(samples)
    z = problem.views.flatten(0, 1)
    with torch.no_grad():
        given = covariances(problem.kernel, problem.views, z, jitter=1e-11)
        bound, posterior = collapsed_bound(given, problem.y, problem.noise)
        mean, variance = predictions(posterior, covariances(problem.kernel, problem.new, z, jitter=1e-11))
    exact, exact_mean, exact_variance = problem.exact()
    assert float(bound) == pytest.approx(exact, rel=1e-7)
    torch.testing.assert_close(mean, exact_mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(variance, exact_variance, rtol=1e-5, atol=1e-6)


def test_with_fewer_inducing_points_it_is_a_lower_bound() -> None:
    problem = Problem(SAMPLES)
    z = problem.views.flatten(0, 1)
    with torch.no_grad():
        bounds = [
            float(collapsed_bound(covariances(problem.kernel, problem.views, z[:n]), problem.y, problem.noise)[0])
            for n in (2, 8, 21)
        ]
    assert bounds == sorted(bounds)
    assert bounds[0] < problem.exact()[0] - 0.01
    assert bounds[-1] <= problem.exact()[0] + 1e-6


def test_pairs_of_different_views_give_the_trace_of_the_average_over_infinitely_many() -> None:
    """With views that are drawn from a few, each equally likely, the mean over all draws is known exactly."""
    torch.manual_seed(0)
    kernel, possible = Kernel(length=1.5).double(), torch.randn(3, SIZE, dtype=torch.float64)
    with torch.no_grad():
        limit = kernel(possible, possible).mean()
        drawn = torch.stack([possible[[i, j]] for i in range(3) for j in range(3)])  # both views of each draw
        found = mean_over_pairs(kernel(drawn, drawn), apart=True).mean()
        biased = mean_over_pairs(kernel(drawn, drawn), apart=False).mean()
    torch.testing.assert_close(found, limit)
    assert float(biased) > float(limit) + 0.01
