"""A plain PyTorch loop with a HyperOptimiser: as the docs write it, like `fit` where it can be, and resumed."""

import difflib
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import data, network
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
)

import lila
import pages
from lila.training.optimisers import cosine

PAGE = "own-loop.md"


def test_the_loop_of_the_docs_runs_and_differs_from_a_plain_one_in_six_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, after, *rest = pages.blocks(PAGE, title="A plain PyTorch loop")
    changed = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("+ ")]
    assert 0 < len(changed) <= 6
    pages.run(PAGE, before.replace("epochs, loss_function = 20", "epochs, loss_function = 1"))
    torch.manual_seed(0)
    names = pages.run(PAGE, after, *rest)
    hyper = names["hyper"]
    assert hyper.taken == 80
    assert hyper.ranges_move
    assert hyper.model.augmentation.ranges["rotation"] > 0
    assert names["net"][1].weight.dtype == torch.float32


def loop_like_fit(net: nn.Module, hyper: lila.HyperOptimiser, settings: dict[str, Any]) -> None:
    """Written with plain PyTorch: Adam with a cosine, cross-entropy, and the order and the noise that `fit` has."""
    x, y = data()
    weights = torch.optim.Adam(net.parameters(), lr=0.01, fused=True)
    for epoch in range(settings["epochs"]):
        draw = lila.Draw(0, 2 * epoch)
        batches = draw.permutation(len(x)).split(settings["batch_size"])
        for number, index in enumerate(batches):
            progress = (epoch + number / len(batches)) / settings["epochs"]
            weights.param_groups[0]["lr"] = cosine(0.01, 0.0001, progress)
            hyper.step(x[index], y[index], index)
            weights.zero_grad()
            noise = hyper.training_model.draw(draw, index, x.dtype)
            loss = F.cross_entropy(hyper.training_model(x[index], noise), y[index]) + hyper.prior_loss()
            loss.backward()
            weights.step()


def test_with_the_optimiser_of_fit_it_is_fit_bit_for_bit() -> None:
    settings: dict[str, Any] = {"epochs": 6, "batch_size": 8, "samples": 4, "burn_in": 1, "microbatch": 20}
    run = lila.fit(network(), data(), lila.Affine2d(), lr=0.01, progress="silent", **settings)
    net = network()
    loader = DataLoader(TensorDataset(*data()), batch_size=8, shuffle=True)
    given = {name: settings[name] for name in ("samples", "burn_in", "microbatch")}
    hyper = lila.HyperOptimiser.for_loader(net, lila.Affine2d(), loader, 6, **given)
    loop_like_fit(net, hyper, settings)
    assert any(run.ranges.values())
    for name, weight in net.state_dict().items():
        assert torch.equal(weight, run.model.net.state_dict()[name]), name
    assert hyper.model.augmentation.ranges == run.ranges
    for one, other in zip(hyper.prior.parameters(), run.prior.parameters(), strict=True):
        assert torch.equal(one, other)


class Loop:
    """AdamW, a schedule, clipping, label smoothing and autocast, in epochs of which each has a seed."""

    def __init__(self, epochs: int = 6) -> None:
        x, y = data(40)
        self.loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
        net = network()
        likelihood = lila.Categorical(label_smoothing=0.1)
        self.hyper = lila.HyperOptimiser.for_loader(
            net, lila.Affine2d(), self.loader, epochs, likelihood=likelihood, samples=4, burn_in=1
        )
        optimiser = torch.optim.AdamW(net.parameters(), weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.05, total_steps=epochs * len(self.loader))
        self.parts: dict[str, Any] = {"net": net, "optimiser": optimiser, "schedule": schedule, "hyper": self.hyper}

    def train(self, epochs: range) -> None:
        net, optimiser, schedule, hyper = self.parts.values()
        for epoch in epochs:
            torch.manual_seed(epoch)
            for x, y in self.loader:
                hyper.step(x, y)
                optimiser.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = F.cross_entropy(hyper.training_model(x), y, label_smoothing=0.1) + hyper.prior_loss()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
                schedule.step()

    def state(self) -> dict[str, Tensor]:
        found = self.hyper.state_dict() | self.parts["net"].state_dict()
        return {name: tensor.clone() for name, tensor in found.items()}


@pytest.mark.parametrize("stop", [1, 4])
def test_a_resumed_loop_is_bit_for_bit_the_uninterrupted_one(stop: int, tmp_path: Path) -> None:
    whole, first, second = Loop(), Loop(), Loop()
    whole.train(range(6))
    first.train(range(stop))
    torch.save({name: part.state_dict() for name, part in first.parts.items()}, tmp_path / "loop.pt")
    for name, state in torch.load(tmp_path / "loop.pt").items():
        second.parts[name].load_state_dict(state)
    second.train(range(stop, 6))
    expected, found = whole.state(), second.state()
    assert found.keys() == expected.keys()
    assert all(value != 0 for value in second.hyper.model.augmentation.ranges.values())
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_the_state_of_another_network_changes_nothing() -> None:
    loop, other = Loop(), Loop()
    loop.train(range(2))
    before = other.state()
    saved = loop.hyper.state_dict()
    for broken in (saved | {"augmentation.eta": torch.zeros(2)}, {n: t for n, t in saved.items() if "prior" not in n}):
        with pytest.raises(lila.ArgumentError, match="not the state of a HyperOptimiser of such a network"):
            other.hyper.load_state_dict(broken)
    for name, tensor in other.state().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


def test_autocast_does_not_reach_hyper_steps_nor_the_transformation() -> None:
    """In bfloat16 a hyper-step would have factors in bfloat16, which cannot be decomposed."""
    loop = Loop()
    x, y = data(40)
    model, noise = loop.hyper.training_model, torch.rand(40, 2, 6) * 2 - 1
    nn.init.constant_(model.augmentation.eta, 0.3)  # type: ignore[arg-type]
    expected = model.views(x, noise)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.views(x, noise), expected)
        assert model(x, noise).dtype == torch.bfloat16
        assert loop.hyper.step(x, y)
    assert all(t.dtype != torch.bfloat16 for t in loop.hyper.state_dict().values())


@pytest.mark.slow
def test_it_learns_the_ranges_that_fit_learns() -> None:
    """Digits turned by up to 90 degrees, with AdamW, a schedule, clipping and autocast that `fit` does not have."""
    task = lila.load_data(lila.Recipe("digits", transform="partially-rotated", subset=400))

    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(256, 100), nn.Tanh(), nn.Linear(100, 10))

    epochs, augmentation, net = 60, lila.Affine2d(), made()
    run = lila.fit(made(), task.train, lila.Affine2d(), epochs=epochs, batch_size=25, progress="silent")
    assert isinstance(task.train, tuple)
    loader = DataLoader(TensorDataset(*task.train), batch_size=25, shuffle=True)
    hyper = lila.HyperOptimiser.for_loader(net, augmentation, loader, epochs)
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.005, total_steps=epochs * len(loader))
    for _ in range(epochs):
        for inputs, labels in loader:
            hyper.step(inputs, labels)
            optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(hyper.training_model(inputs), labels) + hyper.prior_loss()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    assert run.ranges["rotation"] > 1.0
    assert augmentation.ranges["rotation"] == pytest.approx(run.ranges["rotation"], rel=0.15)
    assert all(abs(augmentation.ranges[name] - value) < 0.1 for name, value in run.ranges.items() if name != "rotation")
    assert hyper.estimate().value == pytest.approx(run.evidence.value, rel=0.15)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(*data(), strict=True))


@pytest.mark.parametrize(
    ("loader", "changes", "message"),
    [
        (data(), {}, "must be a torch.utils.data.DataLoader"),
        (DataLoader(Stream(), batch_size=4), {}, "cannot be counted, or not be read by index"),
        (DataLoader(TensorDataset(*data()), batch_size=None), {}, "batch_size=None"),
        (DataLoader(TensorDataset(*data())), {"batches": 0}, "batches must be a whole number"),
        (DataLoader(TensorDataset(*data())), {"epochs": 0}, "epochs must be a whole number"),
        (DataLoader(TensorDataset(*data())), {"lr": 0.1}, "there is no setting 'lr'. Settings are: samples"),
        (DataLoader(TensorDataset(*data())), {"samples": 0}, "samples must be a whole number"),
        (DataLoader(TensorDataset(*data())), {"likelihood": nn.CrossEntropyLoss()}, r"Use lila\.Categorical\(\)"),
    ],
)
def test_what_no_loop_can_be_made_of_is_refused(loader: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(lila.ArgumentError, match=message):
        lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), loader, **({"epochs": 3} | changes))


def test_a_loop_may_change_what_its_loader_gives() -> None:
    x, y = data()
    loader = DataLoader(TensorDataset((255 * x).byte(), y), batch_size=4, shuffle=True)
    with pytest.raises(lila.DataError, match=r"torch.uint8 but the network's weights torch.float32"):
        lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), loader, 3)
    hyper = lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), loader, 3, few=(x[:8], y[:8]), batches=2)
    assert hyper.step(x[:4], y[:4])
    assert hyper.steps == 6


def test_a_loader_of_some_examples_counts_those() -> None:
    loader = DataLoader(TensorDataset(*data()), batch_size=4, sampler=SubsetRandomSampler(range(12)))
    hyper = lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), loader, 3, samples=1)
    assert (hyper.running.examples, hyper.steps) == (12, 9)


def test_a_loader_that_does_not_shuffle_is_warned_of() -> None:
    ordered = TensorDataset(*data())

    def hyper(**options: Any) -> lila.HyperOptimiser:
        return lila.HyperOptimiser.for_loader(network(), lila.Affine2d(), DataLoader(ordered, **options), 3, samples=1)

    with pytest.warns(UserWarning, match="in the order of the data set.*: make it with shuffle=True") as warned:
        hyper(batch_size=4)
    assert warned[0].filename == __file__
    indices = range(len(ordered))
    hyper(batch_size=len(ordered))  # a batch of all examples needs no other order
    hyper(batch_size=4, sampler=indices)
    hyper(batch_sampler=BatchSampler(SequentialSampler(indices), 4, drop_last=False))
