from dataclasses import replace

import pytest

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
