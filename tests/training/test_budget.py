import pytest
from test_fit import QUICK, data, network

import lila
from lila.memory import parse_bytes
from lila.training.budget import choose_microbatch, measure


def evidence(microbatch: int = 1) -> lila.Evidence:
    net = network()
    model = lila.InvariantModel(net, lila.Affine2d(), samples=20)
    return lila.Evidence(model, lila.Categorical(), lila.GaussianPrior(net), microbatch=microbatch)


@pytest.mark.parametrize("budget", ["2MiB", "5 MiB", "20MiB"])
def test_the_chosen_microbatch_keeps_the_budget_and_uses_it(budget: str) -> None:
    made = evidence()
    chosen = choose_microbatch(made, data(), budget, batch_size=10_000)
    assert measure(made, data(), chosen) <= parse_bytes(budget) * 1.05
    if chosen < 128:
        assert measure(made, data(), chosen + 1 + chosen // 5) > parse_bytes(budget)


def test_it_is_never_more_than_the_batch() -> None:
    assert choose_microbatch(evidence(), data(), None, batch_size=7) == 7
    assert choose_microbatch(evidence(), data(), None, batch_size=1000) == 128


def test_a_budget_too_small_for_one_example_says_how_much_it_takes() -> None:
    with pytest.raises(lila.MemoryBudgetError, match=r"single example needs .*iB.* but the budget is 20 KiB"):
        choose_microbatch(evidence(), data(), "20KiB", batch_size=7)


def test_a_run_writes_its_choice_down() -> None:
    settings = {name: value for name, value in QUICK.items() if name != "microbatch"}
    made = lila.fit(network(), data(), lila.Affine2d(), memory="1GiB", **settings)
    assert made.settings.microbatch == QUICK["batch_size"]


@pytest.mark.parametrize("text", ["4", "4GB", "-1GiB", "0GiB", "lots"])
def test_amounts_of_memory_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(lila.ArgumentError, match="is not an amount of memory; write it as '4GiB'"):
        lila.Settings(memory=text)
    assert parse_bytes("1.5 KiB") == 1536
