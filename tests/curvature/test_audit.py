"""What the audit of a network finds, in which words, and what it must not mistake for an error."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sly_networks import (
    REFUSED,
    Autocast,
    Base,
    GhostPairs,
    LargeBatches,
    MixedIfBright,
    Remembered,
    RunningMean,
    SomeUses,
    StochasticDepth,
    mean,
)
from torch import Tensor, nn

import lila
import oracles
from cases import CHANNELS, NETWORKS, OUTPUTS, Case, case_of, make_case
from lila.model.fixup import Scale


def degenerate_case(net: nn.Module, n: int = 7, samples: int = 2) -> Case:
    """A case whose first example is zero."""
    case = case_of(net, n=n, samples=samples)
    case.x[0] = 0
    return case


def refusal(case: Case, **settings: Any) -> str:
    with pytest.raises(lila.ModelError) as caught:
        case.evidence("kron", **settings).estimate(case.data, case.draw)
    return str(caught.value)


IN_DOUBLE = [make for make in REFUSED if make is not Autocast]


@pytest.mark.parametrize("microbatch", [1, 64])
@pytest.mark.parametrize("make", IN_DOUBLE)
def test_networks_that_would_give_a_wrong_number_are_refused_with_the_cause(
    make: Callable[[], nn.Module], microbatch: int
) -> None:
    if make in (LargeBatches, GhostPairs) and microbatch == 1:
        return  # which no pass then shows it
    assert REFUSED[make] in refusal(degenerate_case(make()), microbatch=microbatch)


@pytest.mark.parametrize("make", REFUSED)
def test_they_are_refused_in_float32_too(make: Callable[[], nn.Module]) -> None:
    case = degenerate_case(make())
    case.model.float()
    case.likelihood.float()
    assert REFUSED[make] in refusal(Case(case.model, case.likelihood, case.x.float(), case.y, case.draw))


@pytest.mark.parametrize("make", [make for make in IN_DOUBLE if make is not SomeUses])
def test_they_are_refused_in_their_own_type_if_they_cannot_be_copied(make: Callable[[], nn.Module]) -> None:
    """Then with the present weights alone."""
    net = make()
    net.uncopied = (i for i in range(3))  # type: ignore[assignment]
    case = degenerate_case(net)
    if make.__name__ in ("ZeroBranch", "ClampedWeight", "SetUpByTheFirst", "OtherInEval", "NoSingles"):
        return  # which only other weights, or other copies, would show
    message = refusal(case)
    cannot_tell = make.__name__ in ("Cached", "Remembered")  # memory from mixing, without a fresh copy
    assert REFUSED[make] in message or cannot_tell


@pytest.mark.parametrize("microbatch", [1, 7, 64])
def test_mixing_is_seen_if_one_input_in_twenty_brings_it_about(microbatch: int) -> None:
    case = case_of(MixedIfBright(), n=200, samples=2)
    bright = torch.randperm(200, generator=torch.Generator().manual_seed(1))[:10]
    case.evidence("kron").estimate(case.data, case.draw)  # nothing is wrong with it as long as none is bright
    case.x[bright] += 5
    assert "depends on the other inputs of the batch" in refusal(case, microbatch=microbatch)


BY_MICROBATCH = [
    "CentredInputs",
    "MixedButForTheFirst",
    "MaskedMixing",
    "AttentionOverBatch",
    "WeakMixing",
    "BatchSize",
]
BY_MICROBATCH += ["LargeBatches", "Sorted", "RunningMean", "Remembered", "Cached"]
BY_ORACLE = ["OutsideForSome", "OutsideOnZero", "RescaledWeight", "ForwardCalled"]


@pytest.mark.parametrize("make", [make for make in REFUSED if make.__name__ in BY_MICROBATCH])
def test_without_the_audit_their_evidence_depends_on_the_microbatch(make: Callable[[], nn.Module]) -> None:
    values = [
        case.evidence("kron", microbatch=size).estimate(case.data, case.draw, audit=False).value
        for case, size in ((degenerate_case(make()), 7), (degenerate_case(make()), 1))
    ]
    assert abs(values[0] - values[1]) > 1e-6


@pytest.mark.parametrize("make", [make for make in REFUSED if make.__name__ in BY_ORACLE])
def test_without_the_audit_their_evidence_is_not_that_of_the_oracle(make: Callable[[], nn.Module]) -> None:
    case = degenerate_case(make())
    evidence = case.evidence("full")
    found = evidence.estimate(case.data, case.draw, audit=False).occam_factor
    assert abs(found - oracles.terms(case, evidence.prior, "full")[2].item()) > 1e-3


def test_a_layer_that_runs_for_some_batches_only_stops_a_pass() -> None:
    """Even if no input of the audit shows it: one example in twenty is bright."""
    case = case_of(SomeUses(), n=20)
    x = -case.x.abs()
    x[10] *= -1
    evidence = case.evidence("kron", microbatch=1)
    with pytest.raises(lila.ModelError, match="'extra' runs for some inputs only"):
        evidence.estimate((x, case.y), case.draw, audit=False)
    made = case.evidence("kron", microbatch=20).estimate((x, case.y), case.draw, audit=False)
    with pytest.raises(lila.ModelError, match="'extra' runs for some inputs only"):
        evidence.gradient((x, case.y), made)


def test_a_layer_that_runs_for_some_batches_only_stops_a_running_estimate() -> None:
    case = case_of(SomeUses(), n=8)
    x = -case.x.abs()
    hyper = lila.HyperOptimiser(case.evidence("kron"), 8, 20, (x, case.y), batch_size=8, every=1)
    hyper.step(x, case.y)
    with pytest.raises(lila.ModelError, match="'extra' runs for some inputs only"):
        hyper.step(-x, case.y)


def numpy_state() -> list[int]:
    state: Any = np.random.get_state()
    return [*state[1].tolist(), state[2]]


def test_an_audit_leaves_random_numbers_and_the_network_alone() -> None:
    for make in (StochasticDepth, RunningMean, Remembered):
        net = make()
        case = degenerate_case(net)
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        states = torch.get_rng_state(), random.getstate(), numpy_state()
        refusal(case)
        torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert (random.getstate(), numpy_state()) == states[1:]
    assert Remembered.centre == 0.0


def test_autocast_around_the_evidence_is_named() -> None:
    case = make_case()
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(lila.ModelError, match=r"torch\.autocast is on"):
        case.evidence("kron").estimate(case.data, case.draw)


# What must be taken ---------------------------------------------------------------------------------------------------


class FlatRegions(nn.Module):
    """Ties in a max-pool and many inputs at a kink."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(CHANNELS, 3, 3, padding=1, bias=False), nn.Linear(12, OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.conv(x.clamp(min=0))), 2)
        out: Tensor = self.head(h.flatten(1))
        return out


class Selected(Base):
    """A layer that sees every input, and whose output counts for some."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return torch.where(mean(x) > 0, torch.tanh(self.extra(h)), h)


class LazyBuffer(Base):
    """Constants that are made when they are first needed, and kept."""

    table: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", None)

    def hidden(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, 4, dtype=x.dtype)
        return super().hidden(x) + self.table


class Attended(Base):
    """Keeps what it last computed, to be looked at."""

    def hidden(self, x: Tensor) -> Tensor:
        self.seen = super().hidden(x)
        return self.seen


class Single(Base):
    """Written for float32 alone."""

    def hidden(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x.float()))


class Deep(nn.Sequential):
    """Thirty layers, in which rounding adds up."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        blocks = [layer for _ in range(30) for layer in (nn.Linear(50, 50), nn.ReLU())]
        super().__init__(nn.Flatten(), *blocks, nn.Linear(50, OUTPUTS))


class ZeroInitialised(Base):
    """A residual branch whose last layer is zero, and a head that is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.scale = nn.Linear(4, 4), Scale(0.0)
        nn.init.zeros_(self.head.weight)

    def hidden(self, x: Tensor) -> Tensor:
        h = super().hidden(x)
        return h + self.scale(self.branch(h))


class WeightRead(Base):
    """Looks at a weight without using it for its outputs."""

    def hidden(self, x: Tensor) -> Tensor:
        self.size = float(self.body.weight.detach().norm())
        return super().hidden(x).type_as(self.body.weight)


class SameDropout(Base):
    """Dropout that is off."""

    def hidden(self, x: Tensor) -> Tensor:
        return F.dropout(super().hidden(x), 0.5, training=False)


TAKEN = [FlatRegions, Selected, LazyBuffer, Attended, Deep, ZeroInitialised, WeightRead, SameDropout]


@pytest.mark.parametrize("make", [*TAKEN, Single])
def test_networks_that_only_look_strange_are_taken_in_float32(make: Callable[[], nn.Module]) -> None:
    case = degenerate_case(make())
    case.model.float()
    case.likelihood.float()
    case = Case(case.model, case.likelihood, case.x.float(), case.y, case.draw)
    values = {case.evidence("kron", microbatch=m).estimate(case.data, case.draw).value for m in (1, 7)}
    assert max(values) == pytest.approx(min(values), rel=1e-4)


@pytest.mark.parametrize("make", TAKEN)
def test_networks_that_only_look_strange_are_taken_in_float64(make: Callable[[], nn.Module]) -> None:
    case = degenerate_case(make())
    evidence = case.evidence("kron")
    found = evidence.estimate(case.data, case.draw)
    if make is not Deep:  # the oracle would take a minute
        expected = [term.item() for term in oracles.terms(case, evidence.prior, "kron")]
        assert list(found.terms().values()) == pytest.approx(expected)


@pytest.mark.parametrize("network", NETWORKS)
def test_one_example_and_one_view_are_enough(network: str) -> None:
    case = make_case(network, samples=1, n=1)
    for x in (case.x, torch.zeros_like(case.x)):
        case.evidence("kron").audit((x, case.y))


# Augmentations --------------------------------------------------------------------------------------------------------


class Brightness(lila.Augmentation):
    """A family that a test breaks."""

    noise_dim = 1

    def __init__(self) -> None:
        super().__init__()
        self.amount = nn.Parameter(torch.tensor(0.3))

    def shift(self, x: Tensor, noise: Tensor, amount: Tensor) -> Tensor:
        return x.unsqueeze(1) + amount * noise.reshape(*noise.shape[:2], *[1] * (x.dim() - 1))

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.shift(x, noise, self.amount)


class NoSamples(Brightness):
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.shift(x, noise, self.amount)[:, 0]


class CutOff(Brightness):
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.shift(x, noise, self.amount.detach())


class Mixup(Brightness):
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return self.shift(0.9 * x + 0.1 * x.roll(1, 0), noise, self.amount)


def with_augmentation(augmentation: lila.Augmentation, samples: int = 2) -> Case:
    case = make_case(n=6)
    model = lila.InvariantModel(case.net, augmentation.double(), samples)
    return Case(model, case.likelihood, case.x, case.y, case.draw)


@pytest.mark.parametrize("samples", [1, CHANNELS, 3])
def test_an_augmentation_without_a_dimension_of_samples_is_refused(samples: int) -> None:
    message = refusal(with_augmentation(NoSamples(), samples))
    assert "NoSamples returned a tensor of shape" in message
    assert "for inputs of shape (6, 2, 5, 5)" in message
    assert "Keep the samples in the second dimension" in message


def test_an_augmentation_that_mixes_examples_is_refused() -> None:
    assert "augmentation Mixup makes of an example depends on the other" in refusal(with_augmentation(Mixup()))


def test_an_augmentation_whose_parameters_have_no_gradient_cannot_be_learned() -> None:
    case = with_augmentation(CutOff())
    evidence = case.evidence("kron")
    with pytest.raises(lila.LilaError, match=r"CutOff.*amount"):
        evidence.estimate(case.data, case.draw)
    with pytest.raises(lila.LilaError, match=r"CutOff.*amount"):
        lila.fit(case.net, case.data, CutOff(), epochs=2, samples=2, progress="silent")
