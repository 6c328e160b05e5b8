"""Hyper-steps while the weights are trained: their schedule, their state, and a loop of one's own around them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import data, network
from torch import Tensor, nn

import lila
from lila.training.hyper_schedule import interval

LIKELIHOOD = lila.Categorical()


def optimiser(
    net: nn.Module, model: lila.InvariantModel, steps: int = 12, structure: str = "kron", **changes: Any
) -> tuple[lila.HyperOptimiser, lila.GaussianPrior]:
    prior = lila.GaussianPrior(net)
    x, y = data()
    evidence = lila.Evidence(model, LIKELIHOOD, prior, structure=structure, gradient_probes=1, microbatch=5)
    settings: dict[str, Any] = {"batch_size": 8, "burn_in": 3, "every": 1, **changes}
    return lila.HyperOptimiser(evidence, 20, steps, (x[:2], y[:2]), **settings), prior


def train(
    net: nn.Module, model: lila.InvariantModel, hyper: lila.HyperOptimiser, prior: lila.GaussianPrior, steps: range
) -> None:
    """A plain loop: SGD on batches of eight, and a hyper-step after each."""
    x, y = data()
    weights = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in steps:
        index = (torch.arange(8) + 8 * step) % 20
        weights.zero_grad()
        noise = model.draw(lila.Draw(1, 2 * step), index, x.dtype)
        loss = -LIKELIHOOD.log_prob(model(x[index], noise), y[index]).mean()
        loss = loss - prior.log_prob(dict(net.named_parameters())) / 20
        loss.backward()
        weights.step()
        hyper.step(x[index], y[index], index)


def everything(model: lila.InvariantModel, prior: lila.GaussianPrior) -> list[Tensor]:
    return [p.detach().clone() for module in (model, prior) for p in module.parameters()]


def test_a_loop_of_ones_own_learns_ranges_and_precisions() -> None:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
    hyper, prior = optimiser(net, model)
    assert not any(p.requires_grad for p in [*model.augmentation.parameters(), *prior.parameters()])
    train(net, model, hyper, prior, range(12))
    assert hyper.hyper_steps == 12
    assert all(value != 0 for value in model.augmentation.ranges.values())
    assert all(abs(p.item()) > 1e-3 for p in prior.parameters())
    assert all(p.grad is None for p in model.augmentation.parameters())
    assert hyper.estimate().standard_error > 0
    hyper.release()
    assert all(p.requires_grad for p in [*model.augmentation.parameters(), *prior.parameters()])


@pytest.mark.parametrize("structure", ["kron", "diag"])
@pytest.mark.parametrize("stop", [1, 5, 11])
def test_its_state_dict_is_all_it_takes_to_go_on(stop: int, structure: str) -> None:
    def made() -> tuple[nn.Module, lila.InvariantModel, lila.HyperOptimiser, lila.GaussianPrior]:
        net = network()
        model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
        return net, model, *optimiser(net, model, structure=structure)

    whole = made()
    train(*whole, range(12))
    first = made()
    train(*first, range(stop))
    saved = {name: tensor.clone() for name, tensor in first[2].state_dict().items()}
    second = made()
    for old, new in zip((*first[:2], first[3]), (*second[:2], second[3]), strict=True):
        new.load_state_dict(old.state_dict())
    second[2].load_state_dict(saved)
    train(*second, range(stop, 12))
    for found, expected in zip(everything(second[1], second[3]), everything(whole[1], whole[3]), strict=True):
        assert torch.equal(found, expected)


def test_the_state_of_something_else_is_refused() -> None:
    net = network()
    hyper, _ = optimiser(net, lila.InvariantModel(net, lila.Affine2d(), samples=4))
    with pytest.raises(lila.ArgumentError, match="not the state of a HyperOptimiser of such a network"):
        hyper.load_state_dict({"counts": torch.zeros(3)})


def test_ranges_move_after_the_burn_in_and_precisions_before() -> None:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
    hyper, prior = optimiser(net, model, steps=40, burn_in=20)
    start = [p.item() for p in prior.parameters()]
    train(net, model, hyper, prior, range(20))
    assert not any(model.augmentation.ranges.values())
    assert [p.item() for p in prior.parameters()] != start
    train(net, model, hyper, prior, range(20, 22))
    assert all(model.augmentation.ranges.values())


def test_ranges_wait_until_the_network_explains_the_data() -> None:
    """Of labels that are mere noise nothing is explained, so that they wait for three eighths of the run."""
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
    hyper, prior = optimiser(net, model, steps=40, burn_in=None)
    unexplained = hyper.running.unexplained
    assert unexplained is None
    train(net, model, hyper, prior, range(14))
    assert (hyper.running.unexplained or 0) > 0.75
    assert not any(model.augmentation.ranges.values())
    train(net, model, hyper, prior, range(14, 16))
    assert all(model.augmentation.ranges.values())

    x = torch.cat([data()[0], torch.zeros(20, 1, 6, 6)])
    y = torch.tensor([0] * 20 + [1] * 20)
    run = lila.fit(network(), (x, y), lila.Affine2d(), epochs=20, lr=0.1, batch_size=10, samples=4, progress="silent")
    moved = [any(record.ranges.values()) for record in run.history]
    assert moved[3]  # what is easy to tell apart is told apart at once


@pytest.mark.parametrize(
    ("steps", "batch", "hyper_batch", "samples", "expected"),
    [
        (3_000, 250, 32, 16, 2),  # 512 views for 500 examples
        (3_000, 250, 32, 31, 4),
        (1_800, 250, 32, 31, 3),  # 600 hyper-steps of a short run
        (100, 250, 32, 31, 2),
        (100_000, 25, 32, 16, 20),
        (100_000, 1000, 8, 2, 1),
        (100_000, 50, 32, 1, 5),  # a single view counts for eight
    ],
)
def test_the_interval_follows_from_the_views(
    steps: int, batch: int, hyper_batch: int, samples: int, expected: int
) -> None:
    assert interval(steps, batch, hyper_batch, samples) == expected


def test_what_is_not_given_follows_from_the_number_of_examples() -> None:
    found = {n: lila.Settings().resolved(n) for n in (10, 400, 1_000, 60_000)}
    assert {n: s.batch_size for n, s in found.items()} == {10: 10, 400: 25, 1_000: 50, 60_000: 250}
    assert {n: s.epochs for n, s in found.items()} == {10: 100, 400: 100, 1_000: 100, 60_000: 13}
    assert all((s.samples, s.weight_samples) == (16, 2) for s in found.values())
    paper = lila.Settings(passes="exact", noise="independent").resolved(1_000)
    assert (paper.epochs, paper.batch_size, paper.samples, paper.weight_samples) == (100, 1000, 31, 31)
    assert (paper.burn_in, paper.hyper_every) == (10, 1)
    given = lila.Settings(epochs=7, batch_size=9, samples=3, weight_samples=1, eta_lr=0.5).resolved(400)
    assert (given.epochs, given.batch_size, given.samples, given.weight_samples, given.eta_lr) == (7, 9, 3, 1, 0.5)


def test_the_final_evidence_is_exact_on_request_and_close_otherwise() -> None:
    settings: dict[str, Any] = {"epochs": 30, "batch_size": 20, "samples": 4, "burn_in": 3, "progress": "silent"}
    runs = [
        lila.fit(network(), data(200), lila.Affine2d(), final_evidence=f, **settings) for f in ("estimate", "exact")
    ]
    estimate, exact = (run.evidence for run in runs)
    assert exact.standard_error == 0
    assert abs(estimate.value - exact.value) < max(4 * estimate.standard_error, 0.02 * abs(exact.value))
    draw = lila.Draw(0, 2 * 30)
    again = lila.Evidence(runs[1].model, runs[1].likelihood, runs[1].prior).estimate(data(200), draw)
    assert exact.terms() == pytest.approx(again.terms())


@pytest.mark.parametrize("method", ["augerino", "non-invariant", "fixed-loss"])
def test_other_methods_have_a_final_evidence_too(method: str, tmp_path: Path) -> None:
    augmentation = lila.Affine2d(init=0.1)
    run = lila.fit(network(), data(), augmentation, method=method, epochs=4, samples=3, burn_in=1, progress="silent")
    run.save(tmp_path / "run")
    assert lila.load(tmp_path / "run").evidence.terms() == run.evidence.terms()
    assert lila.load(tmp_path / "run").evidence.standard_error == run.evidence.standard_error


class StopError(Exception):
    """Raised to end a run."""


def stop(record: lila.EpochRecord) -> None:
    raise StopError


@pytest.mark.parametrize("passes", ["running", "probed"])
def test_a_run_that_fails_leaves_what_is_trainable_as_it_was(passes: str) -> None:
    augmentation, likelihood = lila.Affine2d(), lila.Gaussian()
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 8, "samples": 3, "burn_in": 1, "passes": passes}
    x, _ = data()
    target = torch.linspace(-1, 1, 60).reshape(20, 3)
    with pytest.raises(StopError):
        lila.fit(network(), (x, target), augmentation, likelihood=likelihood, callbacks=[stop], **settings)
    assert [p.requires_grad for p in augmentation.parameters()] == [True]
    assert likelihood.log_sigma.requires_grad
    augmentation.requires_grad_(False)
    lila.fit(network(), (x, target), augmentation, likelihood=likelihood, progress="silent", **settings)
    assert [p.requires_grad for p in augmentation.parameters()] == [False]
    assert not any(augmentation.ranges.values())


def test_what_another_one_learns_is_not_learned_twice() -> None:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
    evidence = lila.Evidence(model, LIKELIHOOD, lila.GaussianPrior(net))
    x, y = data()
    first = lila.HyperOptimiser(evidence, 20, 10, (x, y), batch_size=8)
    with pytest.raises(lila.ArgumentError, match=r"nothing to learn. If another HyperOptimiser .* release\(\)"):
        lila.HyperOptimiser(evidence, 20, 10, (x, y), batch_size=8)
    first.release()
    lila.HyperOptimiser(evidence, 20, 10, (x, y), batch_size=8)


def test_hyper_steps_use_all_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    hyper, _ = optimiser(net, lila.InvariantModel(net, lila.Affine2d(), samples=4), hyper_batch=3)
    used: list[set[int]] = []
    original = hyper.running.add

    def spy(batch: Any, *rest: Any, **more: Any) -> Any:
        used.append(set(batch.index.tolist()))
        return original(batch, *rest, **more)

    monkeypatch.setattr(hyper.running, "add", spy)
    x, y = data()
    for _ in range(7):
        hyper.step(x[:7], y[:7])
    assert all(len(chosen) == 3 for chosen in used)
    assert set().union(*used) == set(range(7))


def test_looking_at_the_evidence_changes_nothing() -> None:
    ended = []
    for looks in (False, True):
        net = network()
        model = lila.InvariantModel(net, lila.Affine2d(), samples=4)
        hyper, prior = optimiser(net, model)
        for step in range(12):
            train(net, model, hyper, prior, range(step, step + 1))
            if looks:
                hyper.estimate()
        ended.append(everything(model, prior))
    for one, other in zip(*ended, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_standard_augmentation_goes_with_every_likelihood(likelihood: str) -> None:
    x, _ = data()
    y = (torch.linspace(-1, 1, 60).reshape(20, 3) > 0).float()
    made = {"gaussian": lila.Gaussian(), "bernoulli": lila.Bernoulli()}[likelihood]
    settings: dict[str, Any] = {"method": "fixed-loss", "epochs": 4, "samples": 3, "progress": "silent"}
    run = lila.fit(network(), (x, y), lila.Affine2d(init=0.1), likelihood=made, **settings)
    assert run.evidence.value < 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hyper_every": 1000}, "after every 1000 batches, of 12 in all .* nothing would be learned"),
        ({"hyper_every": 3, "burn_in": 3}, "after every 3 batches, of 12 in all and 9 before"),
        ({"samples": 3, "weight_samples": 4}, "weight_samples is 4 and samples 3"),
        ({"gradient_examples": 5}, "hyper_batch says how many"),
        ({"averages": "unbiased"}, "noise='independent'"),
    ],
)
def test_settings_under_which_nothing_would_be_learned_or_that_do_nothing_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.fit(network(), data(), lila.Affine2d(), **({"epochs": 4, "batch_size": 8} | changes))


def test_one_sample_and_a_small_microbatch_work() -> None:
    lila.fit(network(), data(), lila.Affine2d(init=0.1), epochs=2, samples=1, progress="silent")
    lila.fit(network(), data(), lila.Affine2d(), epochs=2, samples=5, weight_samples=5, microbatch=1, progress="silent")


def test_inputs_and_targets_of_another_type_are_told() -> None:
    x, y = data()
    for wrong in (y - 5, y + 5):
        with pytest.raises(lila.DataError, match="labels range from"):
            lila.fit(network(), (x, wrong), lila.Affine2d())
    with pytest.raises(lila.DataError, match=r"torch.float64 but the network's weights torch.float32"):
        lila.fit(network(), (x.double(), y), lila.Affine2d())
    net = network()
    hyper, _ = optimiser(net, lila.InvariantModel(net, lila.Affine2d(), samples=4))
    with pytest.raises(lila.DataError, match=r"torch.float64 but the network's weights torch.float32"):
        hyper.step(x.double(), y)
    with pytest.raises(lila.ArgumentError, match="20 inputs, 3 targets and no indices"):
        hyper.step(x, y[:3])
    with pytest.raises(lila.ArgumentError, match="batch of 5 examples has no share of 20 examples after the first 0"):
        hyper.step(x, y, whole=5)
    with pytest.raises(lila.ArgumentError, match="Indices of examples are whole numbers"):
        hyper.step(x, y, -torch.arange(20))
    with pytest.raises(lila.ArgumentError, match="Nothing was added"):
        optimiser(net, lila.InvariantModel(net, lila.Affine2d(), samples=4))[0].estimate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eta_lr": -1.0}, "eta_lr must be positive"),
        ({"hyper_lr": float("nan")}, "hyper_lr must be positive"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"every": 0}, "every must be a whole number"),
        ({"burn_in": -5}, "burn_in must be a whole number of at least 0, but is -5"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, but is 'x'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    net = network()
    with pytest.raises(lila.ArgumentError, match=message):
        optimiser(net, lila.InvariantModel(net, lila.Affine2d(), samples=4), **changes)
