"""The modes of a network's modules, train() and eval(), are the user's; what cannot be trained is refused at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_fit import QUICK, assert_same, data, network
from torch import Tensor, nn

import lila
from lila.training.methods import MethodName
from lila.training.scores import evaluate

PASSES = ["exact", "probed", "running"]
AUGMENTATIONS: dict[str, Callable[[], lila.Augmentation | None]] = {"affine": lila.Affine2d, "none": lambda: None}


def with_dropout(p: float = 0.5) -> nn.Sequential:
    """The network of the other tests with dropout in it, which is on."""
    body = list(network().children())
    return nn.Sequential(*body[:3], nn.Dropout(p), body[3])


class Functional(nn.Module):
    """A network that no list of modules shows to be random."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.body, self.always = network(), always

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.body(x), 0.2, training=self.always or self.training)


def modes(net: nn.Module) -> dict[str, bool]:
    return {name: module.training for name, module in net.named_modules()}


def settings(passes: str) -> dict[str, Any]:
    changes = {"passes": passes, "progress": "silent"}
    return QUICK | changes | ({"burn_in": 0, "hyper_every": 1} if passes == "running" else {})


for_each_pass = pytest.mark.parametrize("passes", PASSES)
with_and_without = pytest.mark.parametrize("augmentation", AUGMENTATIONS)


@for_each_pass
@with_and_without
def test_modules_in_evaluation_mode_stay_in_it_and_train(passes: str, augmentation: str) -> None:
    net, plain = with_dropout(), network()
    net[3].eval()
    before, seen = modes(net), []
    made = AUGMENTATIONS[augmentation]
    run = lila.fit(net, data(), made(), test=data(), callbacks=[lambda _: seen.append(modes(net))], **settings(passes))
    assert [*seen, modes(net)] == [before] * (QUICK["epochs"] + 1)
    without = lila.fit(plain, data(), made(), test=data(), **settings(passes))
    assert torch.equal(net.state_dict()["4.weight"], plain.state_dict()["3.weight"])
    assert run.evidence.value == without.evidence.value
    assert run.test == without.test


@pytest.mark.parametrize("training", [True, False])
def test_a_network_is_left_in_its_mode_as_a_whole(training: bool, tmp_path: Path) -> None:
    net = network().train(training)
    one = lila.fit(net, data(), lila.Affine2d(), test=data(), folder=tmp_path, **settings("exact"))
    assert set(modes(net).values()) == {training}
    again = network().train(training)
    two = lila.resume(tmp_path, again, data(), lila.Affine2d(), test=data(), progress="silent")
    assert set(modes(again).values()) == {training}
    assert_same(one, two)


@for_each_pass
@with_and_without
@pytest.mark.parametrize(
    ("net", "message"),
    [
        (with_dropout, r"'3' is a Dropout in training mode.*switch it off with eval\(\)"),
        (lambda: Functional(always=False), "draws random numbers.*dropout"),
        (lambda: Functional(always=True).eval(), "draws random numbers.*dropout"),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), network()), "no likelihood of a single example"),
    ],
    ids=["dropout", "functional", "functional-in-eval", "batch-norm"],
)
def test_what_cannot_be_trained_is_refused_before_the_first_epoch(
    net: Any, message: str, passes: str, augmentation: str, tmp_path: Path
) -> None:
    made, epochs = net(), list[lila.EpochRecord]()
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    in_mode = modes(made)
    with pytest.raises(lila.ModelError, match=message):
        lila.fit(
            made,
            data(),
            AUGMENTATIONS[augmentation](),
            folder=tmp_path / "run",
            callbacks=[epochs.append],
            **settings(passes),
        )
    assert not epochs
    assert modes(made) == in_mode
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state_dict().items())
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("method", [method.value for method in MethodName])
def test_every_method_refuses_it(method: str) -> None:
    with pytest.raises(lila.ModelError, match="draws random numbers"):
        lila.fit(Functional(always=True), data(), lila.Affine2d(init=0.1), method=method, **settings("exact"))


def test_evaluation_switches_no_module() -> None:
    net = with_dropout()
    net[3].eval()
    model = lila.InvariantModel(net, lila.Affine2d(init=0.2), samples=4)
    before = modes(model)
    scores = evaluate(model, lila.Categorical(), data(), 5)
    assert modes(model) == before
    assert scores == evaluate(model.eval(), lila.Categorical(), data(), 5)


def test_a_run_that_is_opened_predicts_without_dropout(tmp_path: Path) -> None:
    net = with_dropout()
    net[3].eval()
    run = lila.fit(net, data(), lila.Affine2d(), folder=tmp_path, **settings("exact"))
    opened, x = lila.load(tmp_path), data()[0]
    noise = run.model.fixed_noise(x)
    assert torch.equal(opened.model(x, noise), run.model(x, noise))
