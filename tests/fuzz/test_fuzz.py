"""Whatever is damaged is opened, and is then sound, or is refused by an error of lila; and the harness itself."""

from collections.abc import Callable
from pathlib import Path

import data_targets
import pytest
import run_targets
from fuzzing import Target, numbers_to_run, run_cases, write

from lila.data.formats import formats
from lila.errors import LilaError

FAST, SLOW = 300, 3000  # cases of each target
TARGETS = (*data_targets.TARGETS, *run_targets.TARGETS)
for_each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@for_each_target
def test_files_that_are_not_damaged_are_opened(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(target.files(), tmp_path / "files")
    target.read(tmp_path / "files")


@for_each_target
def test_damaged_files_are_opened_or_refused(target: Target, tmp_path: Path) -> None:
    was_read, refused = run_cases(target, range(FAST), tmp_path)
    if len(numbers_to_run(target, range(FAST))) == FAST:  # otherwise a single case was asked for
        assert was_read > 0
        assert refused > FAST / 4


@pytest.mark.slow
@for_each_target
def test_many_damaged_files_are_opened_or_refused(target: Target, tmp_path: Path) -> None:
    run_cases(target, range(FAST, FAST + SLOW), tmp_path)


def test_the_files_of_a_run_are_the_same_each_time() -> None:
    assert run_targets.run_files() == run_targets.run_files.__wrapped__()


def test_every_format_is_fuzzed() -> None:
    assert {format_.name for format_ in formats()} == {"folder", "idx", "arrays", "ts", "archive", "cifar"}


def failing(action: Callable[[], object]) -> Target:
    def do(folder: Path) -> None:
        action()

    return Target("failing", lambda: {"a": b"content"}, do)


def refuse() -> None:
    raise LilaError("refused")


def allocate() -> None:
    try:
        bytearray(2**31)
    except MemoryError as error:
        raise LilaError("refused") from error


def wait() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("action", "message"),
    [(lambda: {"a": 1}["x"], "KeyError: 'x'"), (allocate, "allocated too much"), (wait, "Hung: not done after")],
)
def test_what_must_not_happen_is_seen(
    action: Callable[[], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzzing.SECONDS", 0.2)
    monkeypatch.delenv("LILA_FUZZ_CASE", raising=False)
    with pytest.raises(AssertionError, match=rf"{message}(.|\n)*LILA_FUZZ_CASE=failing:7 "):
        run_cases(failing(action), [7], tmp_path)
    assert run_cases(failing(refuse), [7, 8], tmp_path / "refused") == (0, 2)


def test_a_case_is_run_again_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    target = Target(
        "seen", lambda: {"a": bytes(100)}, lambda folder: seen.extend(p.read_bytes() for p in folder.iterdir())
    )
    monkeypatch.delenv("LILA_FUZZ_CASE", raising=False)
    run_cases(target, range(5), tmp_path / "all")
    monkeypatch.setenv("LILA_FUZZ_CASE", "seen:3")
    run_cases(target, range(5), tmp_path / "one")
    monkeypatch.setenv("LILA_FUZZ_CASE", "other:3")
    assert run_cases(target, range(5), tmp_path / "none") == (0, 0)
    assert len(seen) == 6
    assert seen[5] == seen[3]
