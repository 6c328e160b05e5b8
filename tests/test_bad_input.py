"""Bad input to the evidence: each is refused by an error of the project with a sentence that helps."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SubsetRandomSampler, TensorDataset

import lila
from cases import Case, make_case
from lila.curvature.eigen import eigh
from lila.data.examples import Examples


def estimate(case: Case, data: Any, **settings: Any) -> lila.Estimate:
    return case.evidence("kron", **settings).estimate(data, case.draw)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_named_by_their_index(value: float) -> None:
    case = make_case(n=4)
    x = case.x.clone()
    x[2, 0, 1, 1] = value
    with pytest.raises(lila.DataError, match="input of example 2 contains NaN or infinite"):
        estimate(case, (x, case.y), microbatch=3)


class Stream(torch.utils.data.IterableDataset[tuple[Tensor, int]]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return iter(())


class Strings(torch.utils.data.Dataset[Any]):
    def __init__(self, item: Any) -> None:
        self.item = item

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.item


class Ragged(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return torch.rand(index + 1), 0


X, Y = torch.rand(3, 2, 5, 5, dtype=torch.float64), torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X[:0], Y[:0]), "data set is empty"),
        (TensorDataset(X[:0], Y[:0]), "data set is empty"),
        (DataLoader(TensorDataset(X[:0], Y[:0])), "data set is empty"),
        ((X, Y[:2]), "as many inputs as targets"),
        ((X,), r"two tensors \(x, y\)"),
        ((X, [0, 1, 2]), r"two tensors \(x, y\)"),
        (Stream(), "IterableDataset, whose examples have no index"),
        (7, "a pair of tensors"),
        (Strings(("a", object())), "could not be stacked"),
        (Strings(X[0]), "must be a pair"),
        ((X.long(), Y), r"x\.float\(\) / 255"),
        ((X.float(), Y), r"inputs have type torch\.float32 but the network's weights torch\.float64"),
        ((X, Y + 1), "range from 1 to 3, but the network has 3 outputs"),
        ((X, Y.double()), "one integer class per example"),
        ((X, Y[:, None]), r"y\.squeeze\(1\)"),
        ((X[:, 0, 0, 0], Y), r"x\.unsqueeze\(1\)"),
        (Ragged(), "could not be stacked to a batch of tensors of one shape"),
        (DataLoader(TensorDataset(X, Y), sampler=SubsetRandomSampler([0, 1])), "Subset"),
        (DataLoader(TensorDataset(X, Y), sampler=RandomSampler(range(3), replacement=True)), "Subset"),
        (DataLoader(TensorDataset(X, Y), batch_sampler=BatchSampler(SubsetRandomSampler([0]), 1, False)), "Subset"),
        (DataLoader(TensorDataset(X, Y), batch_size=None), "batch_size=None"),
    ],
)
def test_data_that_cannot_be_used_is_refused(data: Any, message: str) -> None:
    with pytest.raises(lila.DataError, match=message):
        estimate(make_case(), data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"structure": "block"}, "no curvature structure named 'block'; choose one of 'kron', 'diag', 'full'"),
        ({"curvature": "hessian"}, "no curvature named 'hessian'; choose one of 'ggn', 'ef'"),
        ({"probes": 0}, "at least 1, but is 0"),
        ({"gradient_probes": -1}, "at least 1, but is"),
        ({"microbatch": 0}, "microbatch must be a whole number of at least 1, but is 0"),
        ({"microbatch": 2.5}, "microbatch must be a whole number"),
        ({"microbatch": True}, "microbatch must be a whole number of at least 1, but is True"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    case = make_case()
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Evidence(case.model, case.likelihood, case.prior(), **settings)


def test_a_precision_per_weight_does_not_go_with_kron() -> None:
    case = make_case()
    with pytest.raises(lila.ArgumentError, match="does not keep the Kronecker structure"):
        lila.Evidence(case.model, case.likelihood, case.prior("diagonal"), structure="kron")


def test_a_prior_of_another_network_is_refused() -> None:
    case = make_case()
    with pytest.raises(lila.ArgumentError, match="disagree on which weights are trainable"):
        lila.Evidence(case.model, case.likelihood, lila.GaussianPrior(nn.Linear(2, 2)))


def test_freezing_a_layer_after_making_the_prior_is_noticed() -> None:
    case = make_case()
    evidence = case.evidence("kron")
    case.net[1].requires_grad_(False)  # type: ignore[index]
    with pytest.raises(lila.ArgumentError, match=r"'1\.bias', '1\.weight'"):
        evidence.estimate(case.data)


def test_weights_that_are_not_finite_stop_with_the_term_named() -> None:
    case = make_case()
    with torch.no_grad():
        case.net[3].bias[0] = float("nan")  # type: ignore[index]
    with pytest.raises(lila.NumericalError, match="log-likelihood is not finite"):
        estimate(case, case.data)


def test_a_factor_that_is_not_finite_stops_with_its_layer_named() -> None:
    case = make_case("linear", "gaussian")
    x = case.x * 1e200
    with torch.no_grad():
        case.net[1].weight.zero_()  # type: ignore[index]
    with pytest.raises(lila.NumericalError, match="input factor A of layer '1' is not finite"):
        estimate(case, (x, case.y))


def test_a_gradient_that_is_not_finite_stops_with_its_parameter_named() -> None:
    case = make_case()
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    case.model.augmentation.eta.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[operator]
    with pytest.raises(lila.NumericalError, match=r"gradient of the evidence in augmentation\.eta is not finite"):
        evidence.gradient(case.data, made)


def test_a_full_curvature_that_is_not_positive_definite_says_so() -> None:
    case = make_case("mlp", "gaussian")
    tiny = lila.GaussianPrior(case.net, "scalar", precision=1e-30)
    with pytest.raises(lila.NumericalError, match="not positive definite to rounding"):
        lila.Evidence(case.model, case.likelihood, tiny, structure="full").estimate(case.data)


def test_eigenvalues_that_do_not_converge_in_float32_are_found_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.linalg.eigh

    def fails_in_float32(matrix: Tensor) -> Any:
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("did not converge")  # type: ignore[attr-defined]
        return real(matrix)

    monkeypatch.setattr(lila.curvature.eigen, "_SMALL", 0)  # which are decomposed in float64 at once
    matrix = torch.tensor([[[2.0, 1.0], [1.0, 2.0]]])
    monkeypatch.setattr(torch.linalg, "eigh", fails_in_float32)
    values, vectors = eigh(matrix)
    assert values.dtype == vectors.dtype == torch.float32
    torch.testing.assert_close(values, torch.tensor([[1.0, 3.0]]))


def test_a_batch_has_at_least_one_example() -> None:
    with pytest.raises(lila.ArgumentError, match="at least one example"):
        next(Examples((X, Y)).batches(0))


def test_every_error_is_one_of_the_projects() -> None:
    for name in ("ArgumentError", "DataError", "ModelError", "MemoryBudgetError", "NumericalError"):
        assert issubclass(getattr(lila, name), lila.LilaError)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
@pytest.mark.parametrize("kind", ["ggn", "ef"])
def test_labels_of_any_integer_type_are_taken(dtype: torch.dtype, kind: str) -> None:
    case = make_case()
    evidence = case.evidence("kron", kind)
    expected = evidence.estimate(case.data, case.draw).value
    assert evidence.estimate((case.x, case.y.to(dtype)), case.draw).value == pytest.approx(expected)


def test_a_prior_is_checked_when_an_estimate_is_reassessed() -> None:
    case = make_case("mlp")
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    with pytest.raises(lila.ArgumentError, match="does not keep the Kronecker structure"):
        evidence.reassess(made, case.prior("diagonal"))
    with pytest.raises(lila.ArgumentError, match="disagree on which weights"):
        evidence.reassess(made, lila.GaussianPrior(nn.Linear(2, 2)))
    with pytest.raises(lila.ArgumentError, match="curvature is a Kron, but this evidence uses Diag"):
        case.evidence("diag").gradient(case.data, made)


def test_the_gradient_wants_the_data_of_the_estimate() -> None:
    case = make_case("mlp")
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    with pytest.raises(lila.ArgumentError, match=f"estimate is one of {len(case.x)} examples, but the data have 2"):
        evidence.gradient((case.x[:2], case.y[:2]), made)


def test_an_estimate_of_other_weights_or_settings_is_refused() -> None:
    """What follows from it would be a mixture of two states, and look like any other."""
    case = make_case("mlp")
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    expected = evidence.gradient(case.data, made)
    weight, eta = next(case.net.parameters()), next(case.model.augmentation.parameters())
    for changed, name in ((weight.data, "net.1.weight"), (eta.data, "augmentation.eta")):
        kept = changed.clone()
        changed[0] += 1e-6
        for use in (
            partial(evidence.gradient, case.data, made),
            partial(evidence.reassess, made, evidence.prior),
            partial(evidence.posterior, made),
        ):
            with pytest.raises(lila.ArgumentError, match=f"made with another value of {name} than the present one"):
                use()
        changed.copy_(kept)
    other = lila.InvariantModel(case.net, case.model.augmentation, samples=2)
    with pytest.raises(lila.ArgumentError, match="made with another value of samples"):
        lila.Evidence(other, case.likelihood, evidence.prior).gradient(case.data, made)
    evidence.prior.log_precisions[0].data += 1  # the curvature does not depend on it
    assert evidence.gradient(case.data, made)["prior.log_precisions.0"] != expected["prior.log_precisions.0"]


_NET = nn.Linear(2, 2)
MISTYPED: list[tuple[Callable[[], object], str]] = [
    (lambda: lila.GaussianPrior(_NET, precision="1"), "inverse of a variance: positive and finite, not '1'"),  # type: ignore[arg-type]
    (lambda: lila.GaussianPrior("net"), "over the weights of a torch.nn.Module, but this is 'net'"),  # type: ignore[arg-type]
    (lambda: lila.InvariantModel(_NET, lila.Rotation2d(), samples="3"), "samples must be a whole number"),  # type: ignore[arg-type]
    (lambda: lila.Categorical(label_smoothing="x"), "label_smoothing must be at least 0 .* but is 'x'"),  # type: ignore[arg-type]
    (lambda: lila.Categorical(class_weights="ab"), "class_weights must be a number or a sequence of numbers"),  # type: ignore[arg-type]
    (lambda: lila.Gaussian(torch.ones(2)), "sigma is a standard deviation"),  # type: ignore[arg-type]
    (lambda: lila.Gaussian(outputs="2"), "outputs is the number of the network's outputs"),  # type: ignore[arg-type]
    (lambda: lila.Affine2d(init="a"), "init must be a number or a sequence of numbers, but is 'a'"),  # type: ignore[arg-type]
    (lambda: lila.Affine2d(init=[0.1, "b"]), "init must be a number or a sequence of numbers"),  # type: ignore[list-item]
    (lambda: lila.Affine2d("rotation"), r"generators must be a list of names, such as \['rotation'\]"),
    (lambda: lila.Affine2d(parameterisation=[1]), r"no parameterisation named \[1\]"),  # type: ignore[arg-type]
    (lambda: lila.HorizontalFlip(None), "init must be a number or a sequence of numbers, but is None"),  # type: ignore[arg-type]
    (lambda: lila.Compose([lila.Affine2d()]), "Each part of a Compose must be an instance of lila.Augmentation"),  # type: ignore[arg-type]
    (lambda: lila.LiePoints(torch.zeros(1, 2, 2)), r"a list of lila.Generator\(name, matrix\)"),  # type: ignore[arg-type]
    (lambda: lila.Settings(lr="1"), "lr must be positive and finite, but is '1'"),  # type: ignore[arg-type]
    (lambda: lila.Settings(momentum=[1]), r"momentum must be finite and not negative, but is \[1\]"),  # type: ignore[arg-type]
    (lambda: lila.Settings(memory=1000), "memory must be an amount of memory with its unit, .* is 1000"),  # type: ignore[arg-type]
    (lambda: make_case().evidence([1]), r"no curvature structure named \[1\]"),  # type: ignore[arg-type]
    (lambda: hyper_optimiser(eta_lr="1"), "eta_lr must be positive and finite, but is '1'"),
    (lambda: hyper_optimiser(burn_in="1"), "burn_in must be a whole number of at least 0, but is '1'"),
]


def hyper_optimiser(**settings: Any) -> lila.HyperOptimiser:
    case = make_case()
    return lila.HyperOptimiser(case.evidence("kron"), 3, 4, case.data, batch_size=2, **settings)


def test_arguments_of_another_type_are_refused_with_a_sentence() -> None:
    for make, sentence in MISTYPED:
        with pytest.raises(lila.ArgumentError, match=sentence):
            make()
    numbers: list[Any] = [np.float32(0.5), torch.tensor(0.5), torch.full((6,), 0.5)]
    assert all(lila.Affine2d(init=number).ranges["rotation"] == 0.5 for number in numbers)


def test_a_gradient_in_nothing_is_refused_with_the_likely_reason() -> None:
    case = make_case("mlp")
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    for parameter in evidence.hyperparameters().values():
        parameter.requires_grad_(False)
    with pytest.raises(lila.ArgumentError, match=r"No hyperparameter has requires_grad=True.*release\(\)"):
        evidence.backward(case.data, made)


def test_hyperparameters_of_another_type_than_the_networks_are_named() -> None:
    net = nn.Linear(2, 1)
    model = lila.InvariantModel(net, lila.Rotation2d().double(), samples=1)
    with pytest.raises(lila.ArgumentError, match=r"augmentation\.eta is torch\.float64.*augmentation\.to\('cpu'"):
        lila.Evidence(model, lila.Gaussian(), lila.GaussianPrior(net))


def test_the_evidence_its_gradient_and_predictions_are_found_under_no_grad_too() -> None:
    case = make_case()
    evidence = case.evidence("kron")
    made = evidence.estimate(case.data, case.draw)
    posterior = lila.Posterior(case.model, case.likelihood, evidence.prior, made.curvature)
    with torch.no_grad():
        assert evidence.estimate(case.data, case.draw).terms() == made.terms()
        found, predicted = evidence.gradient(case.data, made), posterior.predict(case.x)
    torch.testing.assert_close(found, evidence.gradient(case.data, made))
    torch.testing.assert_close(predicted, posterior.predict(case.x))


def test_a_custom_collate_function_is_used() -> None:
    case = make_case(n=4)

    def doubled(items: list[Any]) -> tuple[Tensor, Tensor]:
        x, y = torch.utils.data.default_collate(items)
        return 2 * x, y

    loader = DataLoader(TensorDataset(case.x, case.y), batch_size=2, collate_fn=doubled)
    expected = estimate(case, (2 * case.x, case.y)).value
    assert estimate(case, loader).value == pytest.approx(expected)


def test_eigenvalues_that_rounding_makes_negative_are_zero() -> None:
    x = torch.rand(2, 40, dtype=torch.float32)
    values, _ = eigh((x.mT @ x)[None])
    assert float(torch.linalg.eigvalsh(x.mT @ x).min()) < 0
    assert float(values.min()) == 0


def test_a_float32_prior_is_summed_in_float64() -> None:
    net = nn.Linear(1000, 1000, bias=False)
    nn.init.constant_(net.weight, 0.1)
    found = lila.GaussianPrior(net).log_prob(dict(net.named_parameters()))
    assert found.dtype == torch.float64
    assert found.item() == pytest.approx(-0.5e6 * (0.01 + 1.8378770664), rel=1e-7)


# Arguments that are something else than what they are given for -------------------------------------------------------


def parts(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(50, 3)).to(dtype), (X.to(dtype).repeat(4, 1, 1, 1), Y.repeat(4))


@pytest.mark.parametrize(
    ("loss", "meant"),
    [
        (nn.CrossEntropyLoss(), r"torch\.nn\.modules\.loss\.CrossEntropyLoss\. Use lila\.Categorical\(\)"),
        (nn.MSELoss(), r"Use lila\.Gaussian\(\)"),
        (lila.Categorical, r"the class Categorical itself; make an instance of it, Categorical\(\)"),
        ("categorical", r"a builtins\.str\. Use lila\.Categorical\(\), lila\.Bernoulli\(\) or lila\.Gaussian\(\)"),
    ],
)
def test_a_loss_in_place_of_a_likelihood_is_named(loss: Any, meant: str) -> None:
    net, data = parts()
    model, prior = lila.InvariantModel(net, lila.Affine2d(), samples=2), lila.GaussianPrior(net)
    curvature = lila.Evidence(model, lila.Categorical(), prior).estimate(data).curvature
    for call in (
        lambda: lila.Evidence(model, loss, prior),
        lambda: lila.Posterior(model, loss, prior, curvature),
        lambda: lila.fit(net, data, lila.Affine2d(), likelihood=loss, progress="silent"),
    ):
        with pytest.raises(lila.ArgumentError, match=f"likelihood must be a lila.Likelihood, but is .*{meant}"):
            call()


def test_a_plain_network_in_place_of_an_invariant_one_is_named() -> None:
    net, data = parts()
    prior = lila.GaussianPrior(net)
    model = lila.InvariantModel(net, lila.Compose(), samples=1)
    estimate = lila.Evidence(model, lila.Categorical(), prior).estimate(data)
    curvature = estimate.curvature
    message = r"must be a lila\.InvariantModel, but is a torch\.nn\.modules\.container\.Sequential\. Wrap the network"
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Evidence(net, lila.Categorical(), prior)  # type: ignore[arg-type]
    with pytest.raises(lila.ArgumentError, match=message):
        lila.Posterior(net, lila.Categorical(), prior, curvature)  # type: ignore[arg-type]
    with pytest.raises(
        lila.ArgumentError, match=r"prior must be a lila\.GaussianPrior\(net\), but is a builtins\.float"
    ):
        lila.Evidence(model, lila.Categorical(), 1.0)  # type: ignore[arg-type]
    with pytest.raises(lila.ArgumentError, match=r"evidence\.estimate\(data\)\.curvature, but is a .*Estimate"):
        lila.Posterior(model, lila.Categorical(), prior, estimate)  # type: ignore[arg-type]


@pytest.mark.parametrize("augmentation", [None, lila.Affine2d, nn.Identity()])
def test_something_else_in_place_of_an_augmentation_is_named(augmentation: Any) -> None:
    net, data = parts()
    message = (
        r"must be a lila\.Augmentation, such as lila\.Affine2d\(\), but is (None|the class|a torch).*lila\.Compose\(\)"
    )
    with pytest.raises(lila.ArgumentError, match=message):
        lila.InvariantModel(net, augmentation)
    if augmentation is not None:
        with pytest.raises(lila.ArgumentError, match=message):
            lila.fit(net, data, augmentation, progress="silent")


def test_something_else_in_place_of_a_network_is_named() -> None:
    _, data = parts()
    with pytest.raises(lila.ArgumentError, match=r"must be a torch\.nn\.Module, but is the class Linear itself"):
        lila.InvariantModel(nn.Linear, lila.Affine2d())  # type: ignore[arg-type]
    with pytest.raises(lila.ArgumentError, match=r"must be a torch\.nn\.Module, but is a builtins\.function"):
        lila.fit(parts, data, progress="silent")  # type: ignore[arg-type]


def test_a_network_that_is_spread_over_devices_is_refused() -> None:
    net, data = parts()
    message = r"{} is a DataParallel, which runs copies of the layers.*its \.module.*torchrun"
    with pytest.raises(lila.ModelError, match=message.format("The network")):
        lila.InvariantModel(nn.DataParallel(net), lila.Affine2d())
    with pytest.raises(lila.ModelError, match=message.format("'0'")):
        lila.fit(nn.Sequential(nn.DataParallel(net)), data, lila.Affine2d(), progress="silent")


def test_networks_whose_layers_cannot_be_recorded_are_refused() -> None:
    net, _ = parts()
    with pytest.raises(lila.ModelError, match=r"'0' was made by torch\.jit"):
        lila.InvariantModel(nn.Sequential(torch.jit.script(nn.Linear(2, 2))), lila.Affine2d())
    with pytest.raises(lila.ModelError, match=r"'1\.weight' has no shape yet.*net\(x\[:1\]\)"):
        lila.InvariantModel(nn.Sequential(net, nn.LazyLinear(2)), lila.Affine2d())


def test_arguments_of_families_that_make_no_sense_are_refused() -> None:
    family = lila.Affine2d()
    with pytest.raises(lila.ArgumentError, match="same object is among the parts of a Compose"):
        lila.Compose(family, family)
    with pytest.raises(lila.ArgumentError, match="points must be a whole number of at least 1, but is -1"):
        lila.PointCloud(["jitter"], points=-1)


def test_inputs_of_another_type_than_the_weights_are_named_wherever_they_come_in() -> None:
    net, data = parts()
    wide = data[0].double(), data[1]
    model, prior = lila.InvariantModel(net, lila.Affine2d(), samples=2), lila.GaussianPrior(net)
    evidence = lila.Evidence(model, lila.Categorical(), prior)
    made = evidence.estimate(data)
    hyper = lila.HyperOptimiser(evidence, 12, 20, data, batch_size=12, every=1)
    hyper.release()
    for call in (
        lambda: evidence.estimate(wide),
        lambda: evidence.estimate(wide, audit=False),
        lambda: evidence.gradient(wide, made),
        lambda: evidence.log_likelihood(wide),
        lambda: lila.HyperOptimiser(evidence, 12, 20, wide, batch_size=12),
        lambda: hyper.step(*wide),
        lambda: lila.Posterior(model, lila.Categorical(), prior, made.curvature).predict(wide[0]),
        lambda: lila.fit(net, wide, lila.Affine2d(), epochs=3, progress="silent"),
        lambda: lila.fit(net, wide, lila.Affine2d(), epochs=3, progress="silent", microbatch=4),
        lambda: lila.fit(net, wide, epochs=3, progress="silent", method="maximum-likelihood"),
        lambda: lila.fit(net, data, lila.Affine2d(), test=wide, epochs=3, progress="silent"),
    ):
        with pytest.raises(
            lila.DataError, match=r"type torch\.float64 but the network's weights torch\.float32.*x\.to"
        ):
            call()
