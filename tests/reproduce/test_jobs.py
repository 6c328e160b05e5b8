"""Jobs are stored under a hash of what they depend on, done once, and shared out evenly."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lila.errors import DataError
from lila.reproduce.engine.images import Training
from lila.reproduce.engine.jobs import Job, Shard
from lila.reproduce.engine.store import Store, rounded
from lila.training.settings import Settings


def test_the_key_depends_on_the_content_and_not_on_its_order() -> None:
    job = Job("images", {"a": 1, "b": [1, 2]})
    assert job.key == Job("images", {"b": [1, 2], "a": 1}).key
    assert len({job.key, Job("toy", job.arguments).key, Job("images", {"a": 1, "b": [2, 1]}).key}) == 3


def test_the_key_does_not_change_from_one_process_to_the_next() -> None:
    """Results on disk are found by it for years."""
    assert Job("toy", {"seed": 0}).key == "ec3ef12a21a704cfa710"


def test_what_does_not_change_a_result_is_not_part_of_its_key() -> None:
    training = Training("mnist", "mlp", Settings())
    assert training.job().key == training.changed(microbatch=7, memory="1GiB", checkpoint_every=3).job().key
    others = [
        training.changed(seed=1),
        training.changed("scaled"),
        training.changed(samples=30),
        training.changed(passes="exact"),
    ]
    assert len({job.job().key for job in (training, *others)}) == 5


@given(count=st.integers(1, 9), seed=st.integers(0, 1000))
def test_every_job_is_in_exactly_one_shard(count: int, seed: int) -> None:
    job = Job("toy", {"seed": seed})
    assert sum(job in Shard(number, count) for number in range(1, count + 1)) == 1


def test_a_result_is_read_back_and_its_job_no_longer_missing(tmp_path: Path) -> None:
    store, job, other = Store(tmp_path), Job("toy", {"seed": 0}), Job("toy", {"seed": 1})
    assert store.missing([job, other, job]) == [job, other]
    store.write(job, {"x": 1 / 3}, {"seconds": 1.0})
    assert store.missing([job, other]) == [other]
    assert store.read(job)["result"] == {"x": 0.333333}
    assert [path.name for path in tmp_path.iterdir()] == [f"{job.key}.json"]  # no temporary file is left


@pytest.mark.parametrize("content", ["", "{", "[]", '{"arguments": {"seed": 5}}'])
def test_a_damaged_result_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    store, job = Store(tmp_path), Job("toy", {"seed": 0})
    store.path(job).write_text(content)
    with pytest.raises(DataError, match=f"{job.key}.json is damaged"):
        store.read(job)


def test_rounding_keeps_what_json_can_say() -> None:
    value = {"a": [1.23456789, None, True, 12], "b": "text"}
    assert json.loads(json.dumps(rounded(value, 3))) == {"a": [1.23, None, True, 12], "b": "text"}
