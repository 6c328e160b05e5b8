import json
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lila
from lila.augment.noise import Draw
from lila.training.history import Seconds, to_json
from lila.training.optimisers import cosine
from lila.training.settings import Settings
from lila.training.state import State

QUICK: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 8,
    "samples": 3,
    "burn_in": 1,
    "microbatch": 5,
    "checkpoint_every": 2,
}


def data(n: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(n, 1, 6, 6, generator=generator), torch.randint(3, (n,), generator=generator)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3))


def run(method: str = "lila", **changes: Any) -> lila.Run:
    augmentation = lila.Affine2d(init=0.2 if method.startswith("fixed") else 0.0)
    return lila.fit(network(), data(), augmentation, method=method, **(QUICK | changes))


def tensors(run: lila.Run) -> dict[str, Tensor]:
    modules = {"net": run.model.net, "augmentation": run.model.augmentation, "prior": run.prior}
    return {f"{owner}.{name}": t for owner, m in modules.items() for name, t in m.state_dict().items()}


def assert_same(one: lila.Run, two: lila.Run) -> None:
    first, second = tensors(one), tensors(two)
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize(
    ("method", "eta_moves", "prior_moves"),
    [
        ("lila", True, True),
        ("non-invariant", False, True),
        ("augerino", True, False),
        ("maximum-likelihood", True, True),
        ("fixed", False, True),
        ("fixed-loss", False, True),
        ("last-layer", True, True),
    ],
)
def test_each_method_learns_what_it_says(method: str, eta_moves: bool, prior_moves: bool) -> None:
    made = run(method)
    assert len(made.history) == QUICK["epochs"]
    first, last = made.history[0], made.history[-1]
    assert (first.ranges != last.ranges) == eta_moves
    assert (first.precisions != last.precisions) == prior_moves
    assert isfinite(made.evidence.value)
    assert method in made.summary()
    if method == "non-invariant":
        assert made.model.samples == 1
        assert made.ranges == {}


def test_the_weights_take_the_step_of_the_papers_objective() -> None:
    """One batch of SGD descends -(1/N) [sum_n log p(y_n | f_hat) + log p(theta)]."""
    x, y = data()
    net = network().double()
    expected = network().double()
    lila.fit(net, (x.double(), y), lila.Affine2d(init=0.3), method="fixed", **ONE_LATE_STEP, lr=0.1, precision=2.0)
    model = lila.InvariantModel(expected, lila.Affine2d(init=0.3).double(), 3)
    noise = model.draw(Draw(0, 0), torch.arange(20), torch.float64)
    prior = lila.GaussianPrior(expected, precision=2.0)
    log_joint = lila.Categorical().log_prob(model(x.double(), noise), y).sum()
    log_joint = log_joint + prior.log_prob(dict(expected.named_parameters()))
    (-log_joint / 20).backward()
    for found, weight in zip(net.parameters(), expected.parameters(), strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(found, weight - 0.1 * weight.grad)


ONE_STEP = {"epochs": 1, "batch_size": 20, "weight_samples": 3, "optimiser": "sgd", "momentum": 0.0, "burn_in": 0}
ONE_LATE_STEP = QUICK | ONE_STEP | {"passes": "exact"}
"""No hyper-step comes before the step of the weights."""


def test_augerinos_step_rewards_the_norm_of_eta_and_decays_weights() -> None:
    x, y = data()
    net, expected = network().double(), network().double()
    augmentation, expected_augmentation = lila.Affine2d(init=0.3), lila.Affine2d(init=0.3).double()
    lila.fit(net, (x.double(), y), augmentation, method="augerino", **(QUICK | ONE_STEP), lr=0.1, eta_lr=0.01)
    model = lila.InvariantModel(expected, expected_augmentation, 3)
    noise = model.draw(Draw(0, 0), torch.arange(20), torch.float64)
    loss = -lila.Categorical().log_prob(model(x.double(), noise), y).mean() - 1e-2 * expected_augmentation.eta.norm()
    loss.backward()
    for found, weight in zip(net.parameters(), expected.parameters(), strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(found, weight - 0.1 * (weight.grad + 1e-4 * weight))
    eta, grad = expected_augmentation.eta, expected_augmentation.eta.grad
    assert grad is not None
    torch.testing.assert_close(augmentation.eta, eta - 0.01 * grad.sign(), rtol=0, atol=1e-6)  # Adam's first step


def test_standard_augmentation_averages_the_log_likelihood() -> None:
    x, y = data()
    net, expected = network().double(), network().double()
    settings = ONE_LATE_STEP | {"method": "fixed-loss", "lr": 0.1, "precision": 2.0, "noise": "independent"}
    lila.fit(net, (x.double(), y), lila.Affine2d(init=0.3), **settings)
    augmentation = lila.Affine2d(init=0.3).double()
    noise = Draw(0, 0).uniform(torch.arange(20), (3, 6), torch.float64)
    views = augmentation(x.double(), noise).detach()
    loss = -torch.stack([lila.Categorical().log_prob(expected(views[:, s]), y).mean() for s in range(3)]).mean()
    loss.backward()
    for found, weight in zip(net.parameters(), expected.parameters(), strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(found, weight - 0.1 * (weight.grad + 2.0 / 20 * weight))


def test_the_first_hyper_step_comes_after_the_burn_in() -> None:
    made = run(passes="probed", burn_in=2, hyper_every=2, epochs=6)
    assert [record.epoch for record in made.history if record.evidence] == [3, 5]


def test_microbatches_change_nothing_but_rounding() -> None:
    small, large = run(microbatch=2), run(microbatch=20)
    for name, tensor in tensors(small).items():
        torch.testing.assert_close(tensor, tensors(large)[name], rtol=1e-3, atol=1e-4)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert_same(run(), run())
    assert not torch.equal(run().model.net[1].weight, run(seed=1).model.net[1].weight)  # type: ignore[index]


class InterruptionError(Exception):
    """Raised to interrupt a run."""


@pytest.mark.parametrize("method", ["lila", "augerino"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_resumed_run_is_bit_for_bit_the_uninterrupted_one(
    tmp_path: Path, method: str, optimiser: str, stop_after: int
) -> None:
    def stop(record: lila.EpochRecord) -> None:
        if record.epoch == stop_after:
            raise InterruptionError

    settings = QUICK | {"method": method, "optimiser": optimiser, "lr": 0.01}
    whole = lila.fit(network(), data(), lila.Affine2d(), **settings)
    with pytest.raises(InterruptionError):
        lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, callbacks=[stop], **settings)
    resumed = lila.resume(tmp_path, network(), data(), lila.Affine2d())
    assert_same(whole, resumed)
    assert resumed.evidence.value == whole.evidence.value
    assert [without_times(r) for r in resumed.history] == [without_times(r) for r in whole.history]


def without_times(record: lila.EpochRecord) -> lila.EpochRecord:
    return replace(record, seconds=Seconds(), peak_bytes=0)


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, **QUICK)
    with pytest.raises(lila.ArgumentError, match=r"already holds a run.*lila\.resume"):
        lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, **QUICK)
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 4


def test_a_damaged_or_foreign_checkpoint_is_named(tmp_path: Path) -> None:
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, **QUICK)

    def resume(net: nn.Module) -> None:
        lila.resume(tmp_path, net, data(), lila.Affine2d())

    other = nn.Sequential(nn.Flatten(), nn.Linear(36, 9), nn.Tanh(), nn.Linear(9, 3))
    before = [p.clone() for p in other.parameters()]
    with pytest.raises(lila.CheckpointError, match=r"net\.1\.weight.*checkpoint\.safetensors.*another network"):
        resume(other)
    assert all(torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))

    history = tmp_path / "history.jsonl"
    text = history.read_text()
    history.write_text(text.splitlines()[0])
    with pytest.raises(lila.CheckpointError, match=r"history\.jsonl has 1 records"):
        resume(network())
    history.write_text(text)

    checkpoint = tmp_path / "checkpoint.safetensors"
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: len(content) // 2])
    with pytest.raises(lila.CheckpointError, match=r"checkpoint\.safetensors is damaged"):
        resume(network())

    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, checkpoint)
    with pytest.raises(lila.CheckpointError, match="not a checkpoint of lila"):
        resume(network())

    described = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(described | {"settings": {"epochs": 3}}))
    with pytest.raises(lila.CheckpointError, match=r"run\.json: settings\.method is missing"):
        resume(network())
    (tmp_path / "run.json").write_text(json.dumps(described | {"settings": described["settings"] | {"surprise": 1}}))
    with pytest.raises(lila.CheckpointError, match=r"run\.json: settings\.surprise is no field"):
        resume(network())
    with pytest.raises(lila.CheckpointError, match="There is no run in"):
        lila.resume(tmp_path / "nowhere", network(), data())


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, **QUICK)
    names = ["checkpoint.safetensors", "history.jsonl", "result.json", "run.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_a_loss_that_is_not_finite_ends_the_run_with_its_epoch_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    net = network()

    def spoil(record: lila.EpochRecord) -> None:
        if record.epoch == 3:
            torch.nn.init.constant_(net[1].weight, float("nan"))  # type: ignore[index]

    with pytest.raises(lila.NumericalError, match="Epoch 4: The training loss is not finite"):
        lila.fit(net, data(), lila.Affine2d(), folder=tmp_path, callbacks=[spoil], **QUICK)
    resumed = lila.resume(tmp_path, network(), data(), lila.Affine2d())
    assert_same(resumed, run())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "no method named 'magic'; choose one of 'lila'"),
        ({"optimiser": "lbfgs"}, "no optimiser named"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"precision": -1.0}, "precision must be positive"),
        ({"lr": float("inf")}, "lr must be positive and finite"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"probes": 0}, "probes must be a whole number of at least 1, but"),
        ({"speed": 3}, r"no setting 'speed'\. Did you mean 'seed'\? Settings are: method, epochs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.fit(network(), data(), lila.Affine2d(), **changes)


def test_settings_survive_json() -> None:
    settings = Settings(method="augerino", probes=2, lr=0.3)
    assert Settings.from_dict(json.loads(json.dumps(asdict(settings)))) == settings


def test_learning_rates_decay_by_a_cosine() -> None:
    assert cosine(1.0, 0.1, 0.0) == pytest.approx(1.0)
    assert cosine(1.0, 0.1, 0.5) == pytest.approx(0.55)
    assert cosine(1.0, 0.1, 1.0) == pytest.approx(0.1)


def test_regression_learns_its_noise() -> None:
    x = torch.linspace(-2, 2, 60)[:, None]
    y = x + 0.3 * torch.randn(60, 1)
    made = lila.fit(
        nn.Linear(1, 1),
        (x, y),
        likelihood=lila.Gaussian(1.0),
        epochs=150,
        batch_size=60,
        lr=0.05,
        burn_in=5,
        method="non-invariant",
    )
    assert isinstance(made.likelihood, lila.Gaussian)
    assert made.likelihood.sigma.item() == pytest.approx(0.3, rel=0.15)


def test_state_tracks_only_what_is_asked_for() -> None:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), 2)
    state = State.fresh(model, lila.Categorical(), lila.GaussianPrior(net), Settings().resolved(20), batches=1)
    state.track("eta")
    assert model.augmentation.eta.requires_grad
    assert not any(p.requires_grad for p in state.prior.parameters())
    assert all(p.requires_grad for p in net.parameters())


def test_records_hold_everything_of_an_epoch() -> None:
    record = to_json(run().history[-1])
    assert set(record) == {
        "epoch", "loss", "accuracy", "evidence", "ranges", "readable_ranges", "parameters", "precisions", "likelihood",
        "hyper_steps", "seconds", "peak_bytes",
    }  # fmt: skip
    assert 0 <= record["accuracy"] <= 1
    assert set(record["evidence"]) == {"value", "log_likelihood", "weight_penalty", "occam_factor"}
    assert set(record["precisions"]) == {"1", "3"}
    assert record["peak_bytes"] > 2**20


def test_loss_and_accuracy_are_those_of_the_epoch() -> None:
    """With steps too small to matter, those of the untrained invariant network under the epoch's noise."""
    x, y = data()
    made = run("fixed", epochs=1, weight_samples=3, burn_in=0, lr=1e-12, lr_end=1e-12)
    model = lila.InvariantModel(network(), lila.Affine2d(init=0.2), 3)
    f = model(x, model.draw(Draw(0, 0), torch.arange(20), torch.float32))
    assert made.history[0].loss == pytest.approx(-lila.Categorical().log_prob(f, y).mean().item(), rel=1e-5)
    assert made.history[0].accuracy == pytest.approx((f.argmax(1) == y).float().mean().item())


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ((torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.long)), r"Test inputs have shape \(1, 2, 2\), but"),
        ((data()[0], data()[1] + 90), "90"),
    ],
)
def test_test_data_are_checked_before_the_first_epoch(test: Any, message: str) -> None:
    records: list[lila.EpochRecord] = []
    with pytest.raises(lila.DataError, match=message):
        lila.fit(network(), data(), lila.Affine2d(), test=test, callbacks=[records.append], progress="silent", **QUICK)
    assert not records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu"}, "no device 'gpu': give cpu, cuda, or cuda:1 for the second GPU.*; PyTorch can use cpu"),
        ({"device": "meta"}, "device 'meta' cannot be used"),
        ({"callbacks": [3]}, r"must be a list of functions, but is \[3\]"),
        ({"callbacks": print}, "must be a list of functions, but is <built-in function print>"),
    ],
)
def test_arguments_are_checked_before_the_first_epoch(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.fit(network(), data(), lila.Affine2d(), progress="silent", **QUICK, **arguments)
