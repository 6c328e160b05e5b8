"""Examples that are dictionaries or longer tuples, examples with weights, and labels that are soft or weighted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import lila
from lila.data.examples import Examples

GENERATOR = torch.Generator().manual_seed(4)
X, Y = torch.rand(12, 1, 4, 4, generator=GENERATOR), torch.arange(12) % 3
WEIGHTS = torch.tensor([1.0, 2.0, 0.0, 3.0]).repeat(3)
QUICK: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 5,
    "samples": 2,
    "burn_in": 0,
    "microbatch": 4,
    "progress": "silent",
}


class Dictionaries(Dataset[dict[str, Any]]):
    """As Hugging Face's `datasets` gives examples, in the format "torch"."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"label": Y[i], "image": X[i], "name": f"image {i}", "weight": WEIGHTS[i]}


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def trained(data: Any, **changes: Any) -> list[Tensor]:
    run = lila.fit(network(), data, lila.Affine2d(["rotation"]), test=data, **(QUICK | changes))
    return [*run.model.parameters(), *run.prior.parameters()]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def as_dictionary(items: list[Any]) -> dict[str, Tensor]:
    return {"pixels": torch.stack([x for x, _ in items]), "labels": torch.stack([y for _, y in items])}


@pytest.mark.parametrize(
    "data",
    [
        lila.Fields(Dictionaries(), "image", "label"),
        lila.Fields(TensorDataset(X, Y, torch.arange(12)), 0, 1),
        lila.Fields(TensorDataset(WEIGHTS, Y, X), -1, 1),
        lila.Fields(DataLoader(TensorDataset(X, Y), collate_fn=as_dictionary), "pixels", "labels"),
    ],
    ids=["dictionaries", "triples", "positions", "collated"],
)
def test_fields_are_chosen_by_name_or_position(data: Any) -> None:
    assert_equal(trained(data), trained((X, Y)))


def test_weights_of_one_change_nothing_but_rounding() -> None:
    found, expected = trained(lila.Fields(TensorDataset(X, Y, torch.ones(12)), 0, 1, weight=2)), trained((X, Y))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Dictionaries(), r"dictionaries with the keys 'label', 'image', 'name', 'weight'.*lila\.Fields\(data, 'image'"),
        (TensorDataset(X, Y, WEIGHTS), r"3 fields, but a pair .* lila\.Fields\(data, 0, 1, weight=2\)"),
        (TensorDataset(X), "must be a pair"),
        (lila.Fields(Dictionaries(), "picture", "label"), "no field 'picture'; they have 'label', 'image'"),
        (lila.Fields(Dictionaries(), "image", "name"), r"'name' of the examples collates to a list.*with_format"),
        (lila.Fields(Dictionaries(), 0, 1), "by 0, examples must be tuples, but they are dict"),
        (lila.Fields(TensorDataset(X, Y), "image", "label"), "by 'image', examples must be dictionaries"),
        (lila.Fields(TensorDataset(X, Y), 0, 2), "2 fields, so there is none at position 2"),
        (lila.Fields(TensorDataset(X, Y, Y), 0, 1, weight=2), r"one real number per example.*no weight"),
        (lila.Fields(TensorDataset(X, Y, -WEIGHTS), 0, 1, weight=2), "finite and not negative"),
        (lila.Fields(TensorDataset(X, Y, X), 0, 1, weight=2), "one real number per example"),
    ],
)
def test_fields_that_are_not_there_are_named(data: Any, message: str) -> None:
    with pytest.raises(lila.DataError, match=message):
        lila.fit(network(), data, lila.Affine2d(), **QUICK)


def test_fields_are_of_a_dataset() -> None:
    for wrong in ((X, Y), X, lila.Fields(Dictionaries(), "image", "label")):
        with pytest.raises(lila.ArgumentError, match="a Dataset or a DataLoader, not from a"):
            lila.Fields(wrong, 0, 1)  # type: ignore[arg-type]


def test_weights_stay_with_their_examples() -> None:
    examples = Examples(lila.Fields(Dictionaries(), "image", "label", "weight"))
    (batch,) = examples.batches(12, torch.tensor([3, 1, 8]))
    assert batch.weight is not None
    assert batch.weight.tolist() == [3.0, 2.0, 1.0]
    parts: Iterator[Any] = batch.split(2)
    assert [part.weight.tolist() for part in parts] == [[3.0, 2.0], [1.0]]


def evidence(likelihood: lila.Likelihood | None = None, **changes: Any) -> lila.Evidence:
    net = network(torch.float64)
    model = lila.InvariantModel(net, lila.Compose(), samples=1)
    return lila.Evidence(model, likelihood or lila.Categorical(), lila.GaussianPrior(net), microbatch=5, **changes)


def repeated(counts: Tensor) -> tuple[Tensor, Tensor]:
    index = torch.arange(12).repeat_interleave(counts.long())
    return X.double()[index], Y[index]


@pytest.mark.parametrize("structure", ["kron", "diag", "full"])
@pytest.mark.parametrize("curvature", ["ggn", "ef"])
def test_an_example_of_weight_two_counts_as_two(structure: str, curvature: str) -> None:
    weighted = lila.Fields(TensorDataset(X.double(), Y, WEIGHTS.double()), 0, 1, weight=2)
    made = evidence(structure=structure, curvature=curvature)
    found, expected = made.estimate(weighted), made.estimate(repeated(WEIGHTS))
    exact = structure != "kron"  # whose factor of the inputs is that of all examples alike
    assert found.log_likelihood == pytest.approx(expected.log_likelihood)
    assert found.occam_factor == pytest.approx(expected.occam_factor, rel=1e-6 if exact else 0.05)


def test_class_weights_count_examples_as_often() -> None:
    weights = [1.0, 2.0, 3.0]
    likelihood = lila.Categorical(class_weights=weights)
    found = evidence(likelihood, structure="full").estimate((X.double(), Y))
    expected = evidence(structure="full").estimate(repeated(torch.tensor(weights)[Y]))
    assert found.terms() == pytest.approx(expected.terms())
    outputs = network(torch.float64)(X.double())
    loss = F.cross_entropy(outputs.detach(), Y, torch.tensor(weights, dtype=torch.float64), reduction="sum")
    assert found.log_likelihood == pytest.approx(-float(loss))


def test_weights_and_class_weights_reach_the_steps_of_the_weights_and_runs(tmp_path: Path) -> None:
    plain = trained((X, Y))
    doubled = lila.Fields(TensorDataset(X, Y, WEIGHTS), 0, 1, weight=2)
    assert not torch.equal(trained(doubled)[0], plain[0])
    likelihood = lila.Categorical(class_weights=[1.0, 0.5, 1.5], label_smoothing=0.1)
    run = lila.fit(network(), (X, Y), lila.Affine2d(), likelihood=likelihood, test=(X, Y), folder=tmp_path, **QUICK)
    assert run.baselines.constant is None
    loaded = lila.load(tmp_path)
    assert isinstance(loaded.likelihood, lila.Categorical)
    assert loaded.likelihood.arguments() == likelihood.arguments()
    weighted_run = lila.fit(network(), doubled, lila.Affine2d(), **QUICK)
    assert weighted_run.baselines.constant is None


def test_hyper_steps_take_weights() -> None:
    ended = []
    for weight in (None, torch.ones(12), 2 * torch.ones(12)):
        loader = DataLoader(TensorDataset(X, Y), batch_size=12)
        hyper = lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), loader, 10, samples=2, burn_in=0)
        for _ in range(4):
            hyper.step(X, Y, weight=weight)
        ended.append(hyper.running.estimate().log_likelihood)
    assert ended[0] == pytest.approx(ended[1])
    assert ended[2] == pytest.approx(2 * ended[0], rel=0.1)
    with pytest.raises(lila.DataError, match="one real number per example"):
        hyper.step(X, Y, weight=torch.ones(3))


SOFT = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], dtype=torch.float64)


def test_soft_and_smoothed_labels_have_the_density_score_and_misfit_of_mixtures() -> None:
    f = torch.randn(3, 3, generator=GENERATOR, dtype=torch.float64).requires_grad_()
    y = torch.tensor([0, 2, 1])
    smooth, plain = lila.Categorical(label_smoothing=0.1), lila.Categorical()
    mixed = 0.9 * F.one_hot(y, 3).double() + 0.1 / 3
    torch.testing.assert_close(smooth.log_prob(f, y), plain.log_prob(f, mixed))
    torch.testing.assert_close(smooth.score(f, y), plain.score(f, mixed))
    torch.testing.assert_close(smooth.misfit(f, y), plain.misfit(f, mixed))
    torch.testing.assert_close(plain.log_prob(f, SOFT), (SOFT * f.log_softmax(1)).sum(1))
    for likelihood, target in ((smooth, y), (plain, SOFT), (lila.Bernoulli(), SOFT)):
        (score,) = torch.autograd.grad(likelihood.log_prob(f, target).sum(), f)
        torch.testing.assert_close(likelihood.score(f, target), score)
    perfect = SOFT.clamp(1e-12).log()
    assert plain.misfit(perfect, SOFT).abs().max() < 1e-9
    assert lila.Bernoulli().misfit(SOFT.clamp(1e-12, 1 - 1e-12).logit(), SOFT).abs().max() < 1e-9


@pytest.mark.parametrize("likelihood", [lila.Categorical(), lila.Categorical(label_smoothing=0.2), lila.Bernoulli()])
def test_the_misfit_of_the_best_constant_prediction_is_what_it_says(likelihood: lila.Likelihood) -> None:
    sums = likelihood.target_sums(SOFT, SOFT)
    mean = sums[:-1] / 3
    constant = mean.logit() if isinstance(likelihood, lila.Bernoulli) else mean.log()
    assert likelihood.constant_misfit(sums, 3) == pytest.approx(
        float(likelihood.misfit(constant.expand(3, -1), SOFT).mean())
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sums_over_classes_are_those_over_their_probabilities(smoothing: float) -> None:
    likelihood, f = lila.Categorical(label_smoothing=smoothing), torch.zeros(12, 4, dtype=torch.float64)
    found, expected = likelihood.target_sums(f, Y), likelihood.target_sums(f, F.one_hot(Y, 4).double())
    torch.testing.assert_close(found, expected)
    assert found[:-1].sum() == pytest.approx(12)


def test_a_run_learns_from_soft_labels() -> None:
    soft = 0.8 * F.one_hot(Y, 3).float() + 0.2 / 3
    found, expected = trained((X, soft)), trained((X, Y), likelihood=lila.Categorical(label_smoothing=0.2))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    run = lila.fit(network(), (X, soft), lila.Affine2d(), test=(X, soft), **QUICK)
    assert run.test is not None
    assert 0 <= run.test["accuracy"] <= 1
    assert run.history[-1].accuracy is not None
    yes = lila.fit(network(), (X, soft), lila.Affine2d(), likelihood=lila.Bernoulli(), **QUICK)
    assert yes.baselines.constant is not None


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (lila.Categorical(), torch.full((2, 3), 0.5), "of sum 1 for each example"),
        (lila.Categorical(), torch.tensor([[1.5, -0.5, 0.0]]), "not negative"),
        (lila.Categorical(), torch.tensor([[0.5, 0.5]]), "probabilities of 2 classes, but the network has 3 outputs"),
        (lila.Categorical(), torch.tensor([[float("nan"), 0.5, 0.5]]), "must be probabilities"),
        (lila.Categorical(class_weights=[1.0, 2.0]), torch.tensor([0]), "2 class weights.* 3 outputs"),
        (lila.Categorical(class_weights=[1.0, 2.0, 3.0]), SOFT, "with one class per example"),
        (lila.Bernoulli(), torch.tensor([[0.5, 1.5, 0.0]]), "labels 0 and 1, or probabilities"),
    ],
)
def test_labels_that_a_likelihood_does_not_allow_are_refused(
    likelihood: lila.Likelihood, y: Tensor, message: str
) -> None:
    with pytest.raises(lila.DataError, match=message):
        likelihood.check_targets(3, y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_smoothing": 1.0}, "less than 1"),
        ({"label_smoothing": -0.1}, "at least 0"),
        ({"class_weights": [1.0, 0.0]}, "positive and finite"),
        ({"class_weights": []}, "positive and finite"),
        ({"class_weights": [1.0, float("inf")]}, "positive and finite"),
    ],
)
def test_smoothing_and_class_weights_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Categorical(**arguments)
