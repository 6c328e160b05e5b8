"""Damaged folders of runs are opened and then predict finite numbers, or are refused by one sentence of lila."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from math import isfinite
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
import torch
from fuzzing import Target, numbers_to_run, run_cases, write
from mutations import GENERIC, Files
from PIL import Image
from run_mutations import inside_a_run

import lila
from commands import run_lila
from lila.cli import export, make_parser, predict, show
from lila.errors import LilaError

FAST, SLOW = 300, 3000  # cases of each target
MODULES = {"show": show, "predict": predict, "export": export}


@cache
def run_files() -> Files:
    """The files of a finished run of `lila train`, and an image of its data that is not damaged with them."""
    folder = Path(mkdtemp())
    try:
        for name in ("dark", "light"):
            (folder / "data" / name).mkdir(parents=True)
            for i in range(8):
                level = 20 * i + (90 if name == "light" else 0)
                Image.new("L", (4, 4), level).save(folder / "data" / name / f"{i}.png")
        options = ["--model", "mlp", "--epochs", "3", "--samples", "2", "--burn-in", "0", "--batch-size", "8"]
        done = run_lila("train", folder / "data", *options, "--out", folder / "run", "--progress", "silent")
        assert done.returncode == 0, done.stderr
        names = ("run.json", "result.json", "history.jsonl", "checkpoint.safetensors")
        return {name: (folder / "run" / name).read_bytes() for name in names}
    finally:
        rmtree(folder)


def one_sentence(opened: Callable[[Path], None]) -> Callable[[Path], None]:
    """Check the message of an error of lila."""

    def checked(folder: Path) -> None:
        try:
            opened(folder)
        except LilaError as error:
            if "\n" in str(error) or not 10 < len(str(error)) < 1000:
                raise AssertionError(f"not one sentence: {error}") from error
            raise

    return checked


def open_in_python(folder: Path) -> None:
    """Load a run: what it says of itself and its weights are finite, and the network takes an input."""
    run = lila.load(folder)
    assert run.summary()
    assert all(map(isfinite, (run.evidence.value, *run.ranges.values())))
    assert all(bool(p.isfinite().all()) for p in (*run.model.parameters(), *run.prior.parameters()))
    x = torch.zeros(1, *run.shape, dtype=next(run.model.parameters()).dtype)
    with torch.no_grad():
        assert run.model(x, run.model.fixed_noise(x)[:, :2]).shape[0] == 1


def open_by_commands(folder: Path) -> None:
    """Show a run, predict by it and export its augmentation, as the command line does."""
    image = folder.parent / "image.png"
    Image.new("L", (4, 4), 100).save(image)
    for words in (
        ["show", folder, "--json"],
        ["predict", folder, image, "--json"],
        ["export", folder, "--to", "torch"],
    ):
        command, *_ = given = [str(word) for word in words]
        with redirect_stdout(io.StringIO()) as printed:
            assert MODULES[command].run(make_parser(command).parse_args(given)) == 0
        assert "NaN" not in printed.getvalue(), printed.getvalue()
        assert "Infinity" not in printed.getvalue(), printed.getvalue()


MUTATIONS = (*GENERIC, *[inside_a_run] * 15)
TARGETS = (
    Target("run-in-python", run_files, one_sentence(open_in_python), MUTATIONS),
    Target("run-by-commands", run_files, one_sentence(open_by_commands), MUTATIONS),
)
for_each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@for_each_target
def test_a_run_that_is_not_damaged_is_opened(target: Target, tmp_path: Path) -> None:
    write(target.files(), tmp_path / "files")
    target.read(tmp_path / "files")


@for_each_target
def test_a_damaged_run_is_opened_or_refused(target: Target, tmp_path: Path) -> None:
    was_read, refused = run_cases(target, range(FAST), tmp_path)
    if len(numbers_to_run(target, range(FAST))) == FAST:  # otherwise a single case was asked for
        assert was_read > 0
        assert refused > FAST / 4


@pytest.mark.slow
@for_each_target
def test_many_damaged_runs_are_opened_or_refused(target: Target, tmp_path: Path) -> None:
    run_cases(target, range(FAST, FAST + SLOW), tmp_path)
