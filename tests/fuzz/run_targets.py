"""Folders of runs: a damaged one is opened, and commands print finite numbers of it, or is refused by one sentence."""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from math import isfinite
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import torch
from fuzzing import Target
from mutations import GENERIC, Files
from PIL import Image
from run_mutations import in_order, inside_a_run

import lila
from commands import QUICK, run_lila
from lila.cli import export, make_parser, predict, show
from lila.errors import LilaError

NAMES = ("run.json", "result.json", "history.jsonl", "checkpoint.safetensors", "posterior.safetensors")
MODULES = {"show": show, "predict": predict, "export": export}


@cache
def run_files() -> Files:
    """The files of a finished run of `lila train`, the same each time: all but what is measured or drawn at random."""
    folder = Path(mkdtemp())
    try:
        for name in ("dark", "light"):
            (folder / "data" / name).mkdir(parents=True)
            for i in range(8):
                level = 20 * i + (90 if name == "light" else 0)
                Image.new("L", (4, 4), level).save(folder / "data" / name / f"{i}.png")
        options = [*QUICK, "--microbatch", "8", "--model", "mlp", "--save-posterior", "--progress", "silent"]
        done = run_lila("train", folder / "data", *options, "--out", folder / "run")
        assert done.returncode == 0, done.stderr
        files = {name: (folder / "run" / name).read_bytes() for name in NAMES}
        return {name: _repeatable(content.replace(bytes(folder), b"/folder")) for name, content in files.items()}
    finally:
        rmtree(folder)


def _repeatable(content: bytes) -> bytes:
    """Put fixed values in place of a run's identity, of times and of memory."""
    if not content.startswith(b"{"):
        return in_order(re.sub(rb'"run":"\w{32}"', f'"run":"{"5" * 32}"'.encode(), content))
    fixed = re.sub(rb'("run": )"\w{32}"', rb'\1"' + b"5" * 32 + b'"', content)
    fixed = re.sub(rb'("(weights|hyper)": )[0-9.e-]+', rb"\g<1>0.25", fixed)
    return re.sub(rb'("peak_bytes": )\d+', rb"\g<1>300000000", fixed)


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
        ["predict", folder, image, "--posterior", "--json"],
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
