import pytest
import torch

import lila
from cases import LIKELIHOODS, OUTPUTS
from oracles import output_hessian, output_score


@pytest.fixture(params=LIKELIHOODS)
def setting(request: pytest.FixtureRequest) -> tuple[lila.Likelihood, torch.Tensor, torch.Tensor]:
    make, targets = LIKELIHOODS[request.param]
    generator = torch.Generator().manual_seed(1)
    f = 2 * torch.randn(6, OUTPUTS, generator=generator, dtype=torch.float64)
    return make().double(), f, targets(6, generator)


def test_densities_are_those_of_torch_distributions() -> None:
    f = torch.randn(5, 3, dtype=torch.float64)
    labels, bits, reals = torch.tensor([0, 2, 1, 1, 0]), (f > 0.2).long(), torch.randn(5, 3, dtype=torch.float64)
    d = torch.distributions
    torch.testing.assert_close(lila.Categorical().log_prob(f, labels), d.Categorical(logits=f).log_prob(labels))
    bernoulli = d.Bernoulli(logits=f).log_prob(bits.double()).sum(1)
    torch.testing.assert_close(lila.Bernoulli().log_prob(f, bits), bernoulli)
    gaussian = lila.Gaussian(0.3, outputs=3).double()
    torch.testing.assert_close(
        gaussian.log_prob(f, reals), d.Normal(f, gaussian.sigma).log_prob(reals).sum(1), rtol=1e-6, atol=1e-6
    )


def test_score_hessian_and_root_are_those_of_automatic_differentiation(
    setting: tuple[lila.Likelihood, torch.Tensor, torch.Tensor],
) -> None:
    likelihood, f, y = setting
    for n in range(len(f)):
        torch.testing.assert_close(likelihood.score(f, y)[n], output_score(likelihood, f[n], y[n]))
        expected = output_hessian(likelihood, f[n], y[n])
        torch.testing.assert_close(likelihood.hessian(f)[n], expected)
        root = likelihood.root(f)[n]
        torch.testing.assert_close(root @ root.mT, expected)
        torch.testing.assert_close(likelihood.sum_of_hessians(f[n : n + 1]), expected)
    torch.testing.assert_close(likelihood.sum_of_hessians(f), likelihood.hessian(f).sum(0))
    unit_vectors = torch.eye(likelihood.root(f).shape[2], dtype=f.dtype).expand(len(f), -1, -1)
    torch.testing.assert_close(likelihood.root(f), likelihood.root_times(f, unit_vectors))


def test_score_and_root_lie_in_the_directions_in_which_the_density_changes(
    setting: tuple[lila.Likelihood, torch.Tensor, torch.Tensor],
) -> None:
    likelihood, f, y = setting
    D = likelihood.directions(f)
    torch.testing.assert_close(D.mT @ D, torch.eye(D.shape[1], dtype=f.dtype))
    assert D.shape[1] == torch.linalg.matrix_rank(likelihood.sum_of_hessians(f))
    torch.testing.assert_close(likelihood.score(f, y) @ D @ D.mT, likelihood.score(f, y))
    torch.testing.assert_close(D @ D.mT @ likelihood.root(f), likelihood.root(f))


def test_the_hessian_of_a_confident_classifier_does_not_cancel_in_float32() -> None:
    f = torch.tensor([[20.0, 0.0, -3.0], [25.0, 1.0, 0.0]])
    found, expected = lila.Categorical().sum_of_hessians(f), lila.Categorical().sum_of_hessians(f.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)


def test_gradients_of_the_root_are_finite_where_probabilities_underflow() -> None:
    for likelihood in (lila.Categorical(), lila.Bernoulli()):
        f = torch.tensor([[300.0, -300.0, 0.0]], requires_grad=True)
        root = likelihood.root(f)
        (grad,) = torch.autograd.grad(root.square().sum() + likelihood.sum_of_hessians(f).square().sum(), f)
        assert root.isfinite().all()
        assert grad.isfinite().all()


def test_a_single_label_may_be_a_vector() -> None:
    f, y = torch.randn(4, 1), torch.tensor([0, 1, 1, 0])
    bernoulli = lila.Bernoulli()
    bernoulli.check_targets(1, y)
    assert torch.equal(bernoulli.log_prob(f, y), bernoulli.log_prob(f, y[:, None]))


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (lila.Categorical(), torch.tensor([0.0, 1.0]), "one integer class per example"),
        (lila.Categorical(), torch.eye(3, dtype=torch.int64), "argmax"),
        (lila.Categorical(), torch.tensor([0, 3]), "range from 0 to 3, but the network has 3 outputs"),
        (lila.Categorical(), torch.tensor([-1, 2]), "range from -1 to 2"),
        (lila.Bernoulli(), torch.tensor([[0, 1, 2]]), "labels 0 and 1"),
        (lila.Bernoulli(), torch.tensor([0, 1]), r"shape \(batch, 3\)"),
        (lila.Gaussian(), torch.tensor([[1, 2, 3]]), r"y\.float\(\)"),
        (lila.Gaussian(), torch.tensor([[1.0, 2.0]]), r"shape \(batch, 3\)"),
        (lila.Gaussian(), torch.tensor([[1.0, 2.0, float("nan")]]), "NaN or infinite"),
        (lila.Gaussian(outputs=2), torch.rand(1, 3), "2 values of sigma, but the network 3 outputs"),
    ],
)
def test_bad_targets_are_refused(likelihood: lila.Likelihood, y: torch.Tensor, message: str) -> None:
    with pytest.raises(lila.DataError, match=message):
        likelihood.check_targets(3, y)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_sigma_must_be_positive(sigma: float) -> None:
    with pytest.raises(lila.ArgumentError, match="positive and finite"):
        lila.Gaussian(sigma)
