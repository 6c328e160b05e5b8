from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_fit import QUICK, data, network

import lila
from lila._util.allocation import Allocation
from lila._util.memory import parse_bytes
from lila.training.budget import _of_step, choose_microbatch, measure
from lila.training.settings import ResolvedSettings


def resolved(passes: str = "probed", samples: int = 31, **settings: Any) -> ResolvedSettings:
    return lila.Settings(passes=passes, samples=samples, **settings).resolved(20)


def evidence(microbatch: int = 1) -> lila.Evidence:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=20)
    return lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), microbatch=microbatch)


@pytest.mark.parametrize("budget", ["2MiB", "5 MiB", "20MiB"])
def test_the_chosen_microbatch_keeps_the_budget_and_uses_it(budget: str) -> None:
    made = evidence()
    settings = resolved(memory=budget, batch_size=10_000)
    chosen = choose_microbatch(made, data(), settings)
    assert measure(made, data(), chosen, settings) <= parse_bytes(budget, "memory") * 1.05
    if chosen < 64:
        assert measure(made, data(), chosen + 1 + chosen // 5, settings) > parse_bytes(budget, "memory")


@pytest.mark.parametrize(("passes", "of_7", "of_1000"), [("probed", 5, 86), ("exact", 2, 32)])
def test_it_is_never_more_than_a_part_of_the_batch(passes: str, of_7: int, of_1000: int) -> None:
    assert choose_microbatch(evidence(), data(), resolved(passes=passes, batch_size=7)) == of_7
    assert choose_microbatch(evidence(), data(), resolved(passes=passes, batch_size=1000)) == of_1000


def test_a_step_of_the_weights_takes_more_examples_at_a_time_but_no_more_than_a_batch() -> None:
    assert resolved(batch_size=100, microbatch=30).weight_microbatch == 45
    assert resolved(batch_size=100, microbatch=20, passes="exact").weight_microbatch == 80
    assert resolved(batch_size=50, microbatch=40).weight_microbatch == 50
    assert resolved(batch_size=50).weight_microbatch == 50
    assert (
        resolved(batch_size=500, microbatch=10, passes="running", samples=30, weight_samples=3).weight_microbatch == 150
    )


@pytest.mark.parametrize(("batch", "microbatch"), [(7, 7), (250, 32), (1000, 48)])
def test_a_hyper_step_while_training_is_one_microbatch_if_it_fits(batch: int, microbatch: int) -> None:
    """Or as many examples as take the memory of a step of the weights, 1000 with two views here, if they are more."""
    settings = resolved(passes="running", batch_size=batch, samples=28)
    assert choose_microbatch(evidence(), data(), settings) == microbatch


@pytest.mark.parametrize(
    ("name", "part", "passes"),
    [("mlp", 200, "exact"), ("mlp", 200, "probed"), ("cnn", 40, "probed"), ("resnet-8-8", 40, "probed")],
)
def test_a_hyper_step_takes_at_most_half_as_much_memory_again_as_a_step(name: str, part: int, passes: str) -> None:
    """At the microbatch that goes with the step's part; whatever the number of examples.

    With all columns the MLP takes most, as its graph holds all of them.
    """
    net = lila.make_model(name, (1, 14, 14), 10)
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=20)
    probes = None if passes == "exact" else 1
    made = lila.Evidence(
        model,
        lila.Categorical(),
        lila.GaussianPrior(net),
        probes=probes,
        gradient_probes=probes,
        microbatch=int(part / resolved(passes=passes).microbatch_ratio),
    )
    x, y = torch.rand(2 * part, 1, 14, 14), torch.arange(2 * part) % 10
    with Allocation() as step:
        loss = made.likelihood.log_prob(model(x[:part]), y[:part]).sum()
        torch.autograd.grad(loss, list(net.parameters()))
    peaks = []
    for count in (part, 2 * part):
        with Allocation() as hyper_step:
            made.backward((x[:count], y[:count]), made.estimate((x[:count], y[:count])))
        peaks.append(hyper_step.peak)
    assert peaks[1] < 1.02 * peaks[0]
    assert peaks[1] < 1.5 * step.peak


def test_a_budget_too_small_for_one_example_says_how_much_it_takes() -> None:
    with pytest.raises(lila.MemoryBudgetError, match=r"single example needs .*iB.* but the budget is 20 KiB"):
        choose_microbatch(evidence(), data(), resolved(memory="20KiB", batch_size=7))


def test_a_run_writes_its_choice_down() -> None:
    settings = {name: value for name, value in QUICK.items() if name != "microbatch"}
    made = lila.fit(network(), data(), lila.Affine2d(), memory="1GiB", passes="probed", **settings)
    assert made.settings.microbatch == ceil(QUICK["batch_size"] / 1.5)


@pytest.mark.parametrize("text", ["4", "4GB", "-1GiB", "0GiB", "lots"])
def test_amounts_of_memory_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(lila.ArgumentError, match="memory must be an amount of memory with its unit, written as '4GiB'"):
        lila.Settings(memory=text)
    assert parse_bytes("1.5 KiB", "memory") == 1536


def test_where_eta_is_learned_by_the_loss_a_step_goes_back_through_the_transformations() -> None:
    big = torch.rand(2, 1, 64, 64), torch.tensor([0, 1])
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4096, 2))
    model = lila.InvariantModel(net, lila.Affine2d(init=0.1), samples=20)
    plain = lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net, structure="scalar"), structure="diag")
    by_loss, by_evidence = (_of_step(plain, big, 16, resolved(method=method)) for method in ("augerino", "lila"))
    assert by_loss > 1.2 * by_evidence


def test_few_views_in_steps_of_the_weights_do_not_make_passes_slow() -> None:
    settings = resolved("exact", samples=16, weight_samples=2, batch_size=62, memory="1GiB")
    assert choose_microbatch(evidence(), data(), settings) == ceil(62 / 4)


@pytest.mark.parametrize("passes", ["exact", "probed", "running"])
@pytest.mark.parametrize("method", ["lila", "augerino"])
def test_a_microbatch_of_ones_own_does_not_hide_how_many_views_there_are(passes: str, method: str) -> None:
    settings = QUICK | {"samples": 10**9, "microbatch": 5, "passes": passes, "method": method}
    with pytest.raises(lila.MemoryBudgetError, match=r"5,000,000,000 views of a microbatch of 5 examples need .*iB"):
        lila.fit(network(), data(), lila.Affine2d(), **settings)
    settings |= {"samples": 100, "memory": "16 KiB"}
    with pytest.raises(lila.MemoryBudgetError, match=r"the budget is 16 KiB\. Use a smaller microbatch"):
        lila.fit(network(), data(), lila.Affine2d(), **settings)


def test_a_run_that_goes_on_where_there_is_less_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lila.fit(network(), data(), lila.Affine2d(), folder=tmp_path, **QUICK)
    monkeypatch.setattr("lila.training.budget.available_bytes", lambda device: 512)
    with pytest.raises(lila.MemoryBudgetError, match="the budget is 512 B"):
        lila.resume(tmp_path, network(), data(), lila.Affine2d())
