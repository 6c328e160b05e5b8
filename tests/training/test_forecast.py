import subprocess
import sys
from dataclasses import replace

import pytest
from test_fit import QUICK, data, network

import lila
from lila.laplace.terms import Terms
from lila.training.forecast import Forecast, StepCounts, StepSeconds, hyper_epochs, readable_seconds
from lila.training.history import Seconds
from lila.training.settings import Settings

TERMS = Terms(log_likelihood=-4.0, weight_penalty=-1.0, occam_factor=-1.0)
FORECAST = Forecast(
    StepCounts(batches=10, hyper=(0.0, 0.0, 5.0, 5.0), decompositions=0.2),
    StepSeconds(weights=0.1, hyper=2.0, decomposition=10.0, end=3.0),
)


def record(
    epoch: int, weights: float, hyper: float = 0.0, hyper_steps: int = 0, rotation: float = 0.0
) -> lila.EpochRecord:
    return lila.EpochRecord(
        epoch=epoch,
        loss=1.0,
        evidence=TERMS if hyper_steps else None,
        hyper_steps=hyper_steps,
        ranges={"rotation": rotation},
        seconds=Seconds(weights, hyper),
    )


def test_the_total_is_the_sum_over_all_kinds_of_steps() -> None:
    assert FORECAST.total() == pytest.approx(4 * 10 * 0.1 + 10 * 2.0 + 10 * 0.2 * 10.0 + 3.0)
    assert FORECAST.total(done=3) == pytest.approx(10 * 0.1 + 5 * 2.0 + 5 * 0.2 * 10.0 + 3.0)
    assert sum(FORECAST.parts().values()) == pytest.approx(FORECAST.total())


def test_what_is_left_counts_hyper_steps_before_they_begin() -> None:
    assert FORECAST.left([]) == FORECAST.total()
    assert FORECAST.left([record(1, weights=1.0)]) == pytest.approx(FORECAST.total(done=1))
    before = FORECAST.left([record(1, 1.0), record(2, 1.0)])
    after = FORECAST.left([record(1, 1.0), record(2, 1.0), record(3, 1.0, hyper=20.0, hyper_steps=5, rotation=0.1)])
    assert before - after == pytest.approx(21.0)  # no jump: what the epoch took


def test_measured_hyper_steps_replace_the_forecast_once_ranges_move() -> None:
    cheap = [record(epoch, 1.0, hyper=1.0, hyper_steps=5) for epoch in (1, 2)]  # ranges stand still
    assert FORECAST.left(cheap) == pytest.approx(2 * 1.0 + 10 * 4.0 + 3.0)
    full = [*cheap, record(3, 1.0, hyper=50.0, hyper_steps=5, rotation=0.1)]
    assert FORECAST.left(full) == pytest.approx(1.0 + 5 * 10.0 + 3.0)


def test_a_slower_machine_makes_foretold_hyper_steps_slower_too() -> None:
    assert FORECAST.left([record(1, weights=2.0)]) == pytest.approx(3 * 2.0 + 2 * 10 * 4.0 + 3.0)


def test_hyper_steps_after_epochs_follow_burn_in_and_interval() -> None:
    settings = Settings(passes="exact", epochs=6, burn_in=2, hyper_every=2).resolved(100)
    assert hyper_epochs(settings) == (0.0, 0.0, 1.0, 0.0, 1.0, 0.0)
    assert not any(hyper_epochs(replace(settings, method="augerino")))


def test_durations_are_readable() -> None:
    assert [readable_seconds(s) for s in (7.6, 65, 7810)] == ["8 s", "1 min 05 s", "2 h 10 min"]


def test_the_network_without_invariance_is_part_of_what_is_foretold(capsys: pytest.CaptureFixture[str]) -> None:
    compared = replace(FORECAST, seconds=replace(FORECAST.seconds, comparison=7.0))
    assert compared.total() == pytest.approx(FORECAST.total() + 7.0)
    assert compared.left([record(1, 1.0)]) == pytest.approx(FORECAST.left([record(1, 1.0)]) + 7.0)
    for baseline in (True, False):
        lila.fit(network(), data(), lila.Affine2d(), baseline=baseline, progress="lines", **QUICK)
        run = capsys.readouterr().err.partition("The same network")[0].split("Data: ")[1]
        assert ("network without invariance" in run) == baseline


MEMORY = """
import sys, torch, lila
from lila._util.memory import keep_heap, peak_bytes
from lila.networks.registry import make_model
from lila.training import loop
keep_heap()
torch.set_num_threads(1)
model, size, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
told = []
original = loop.foretold_bytes
loop.foretold_bytes = lambda *given, **more: told.append(original(*given, **more)) or told[-1]
x, y = torch.rand(size, 3, 16, 16), torch.arange(size) % 4
net = make_model(model, (3, 16, 16), 4)
before = peak_bytes(torch.device("cpu"))
run = lila.fit(net, (x, y), lila.Affine2d(), test=(x[:50], y[:50]), progress="lines", epochs=epochs, samples=8)
print(before, told[0], peak_bytes(torch.device("cpu")))
"""


def memory(model: str, size: int, epochs: int) -> tuple[int, int, int]:
    """The peak of a process before a run, the peak that was foretold, and that at the end."""
    command = [sys.executable, "-c", MEMORY, model, str(size), str(epochs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, told, after = map(int, done.stdout.split("\n")[-2].split())
    return before, told, after


@pytest.mark.parametrize(
    ("model", "size", "epochs"),
    [
        ("mlp", 100, 2),
        pytest.param("mlp", 600, 12, marks=pytest.mark.slow),
        pytest.param("cnn", 200, 20, marks=pytest.mark.slow),
        pytest.param("resnet-8-8", 100, 2, marks=pytest.mark.slow),
    ],
)
def test_memory_is_foretold_within_a_factor_of_two_beyond_what_the_process_has_anyway(
    model: str, size: int, epochs: int
) -> None:
    before, told, after = memory(model, size, epochs)
    print(f"{model}, {size}: {(told - before) / 2**20:.0f} MiB foretold, {(after - before) / 2**20:.0f} MiB taken")
    assert 0.5 < (told - before) / (after - before) < 2
