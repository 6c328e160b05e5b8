from math import factorial, log, pi

import pytest
import torch

import lila


def answer(likelihood: lila.Likelihood, outputs: int, y: torch.Tensor):  # type: ignore[no-untyped-def]
    f = torch.zeros(len(y), outputs, dtype=torch.float64)
    return likelihood.constant_answer(likelihood.target_sums(f, y), len(y))


def test_the_evidence_of_class_frequencies_is_the_product_of_polyas_urn() -> None:
    y = torch.tensor([0, 1, 0, 0, 2, 1])
    made = answer(lila.Categorical(), 4, y)
    seen, expected = [0] * 4, 0.0
    for n, label in enumerate(y.tolist()):  # p(y_n | y_1 ... y_n-1), whose product is the evidence
        expected += log((seen[label] + 1) / (n + 4))
        seen[label] += 1
    assert made.evidence == pytest.approx(expected, abs=1e-12)
    scores = made.scores(torch.tensor([0, 3]))
    assert scores["accuracy"] == 0.5
    assert scores["log_likelihood"] == pytest.approx((log(4 / 10) + log(1 / 10)) / 2)  # finite for a class never seen


def test_labels_are_two_classes_each() -> None:
    y = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    made = answer(lila.Bernoulli(), 2, y)
    expected = 2 * log(factorial(3) * factorial(1) / factorial(5))
    assert made.evidence == pytest.approx(expected, abs=1e-12)
    assert made.outputs.sigmoid().tolist() == pytest.approx([4 / 6, 2 / 6])
    one = made.scores(torch.tensor([[1.0, 0.0]]))
    assert one["log_likelihood"] == pytest.approx(2 * log(4 / 6))


@pytest.mark.parametrize("outputs", [None, 2])
def test_real_targets_have_their_mean_and_deviation(outputs: int | None) -> None:
    y = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 5]) + 3
    likelihood = lila.Gaussian(0.1, outputs=outputs)
    made = answer(likelihood, 2, y)
    assert made.outputs.tolist() == pytest.approx(y.mean(0).tolist())
    variance = y.var(0, correction=0)
    variance = variance.mean().expand(2) if outputs is None else variance
    expected = -0.5 * 50 * float(((2 * pi * variance).log() + 1).sum())
    assert made.evidence == pytest.approx(expected)
    assert made.scores(y)["log_likelihood"] == pytest.approx(expected / 50)
    assert float(likelihood.sigma.detach().mean()) == pytest.approx(0.1)  # asking changes nothing


def test_targets_that_do_not_vary_and_unknown_likelihoods_have_no_constant_answer() -> None:
    assert answer(lila.Gaussian(), 1, torch.ones(4)) is None
    assert lila.Likelihood.constant_answer(lila.Categorical(), torch.ones(2), 2) is None
