"""Runs that a stranger made, two commands in one folder, and a disk that is full."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from commands import QUICK, Lila
from damage import change, checkpoint, put, put_checkpoint
from small_lila import COMMAND, environment

LOADED = "from pathlib import Path\nPath({marker!r}).touch()\n\n\n"
CALLED = "def small(shape, classes):\n    Path({marker!r}).touch()\n"
NETWORK = "    from mynet import Net\n    return Net(shape, classes)\n"
NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))

    def forward(self, x):
        return self.body(x)
"""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists if the module `evil`, which Python finds, was imported or its function called."""
    path = tmp_path / "it-ran"
    (tmp_path / "evil.py").write_text((LOADED + CALLED + NETWORK).format(marker=str(path)))
    (tmp_path / "mynet.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("evil", "mynet"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return path


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "copied")
    return tmp_path / "copied"


def commands(run: Path, photos: Path) -> dict[str, list[Any]]:
    return {
        "show": ["show", run],
        "picture": ["show", run, "--picture", run.parent / "p.png"],
        "predict": ["predict", run, photos],
        "export": ["export", run],
        "report": ["report", run, "--out", run.parent / "r.html"],
        "resume": ["resume", run],
    }


COMMANDS = list(commands(Path(), Path()))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", ["evil:small", "subprocess:call", "os:system"])
def test_no_command_imports_or_calls_what_a_run_names(
    lila: Lila, copied: Path, photos: Path, marker: Path, command: str, model: str
) -> None:
    change(copied / "run.json", put("task", "model", value=model))
    change(copied / "run.json", put("architecture", "net", value=None))
    done = lila(*commands(copied, photos)[command])
    assert done.returncode == 4
    assert f"If you trust that function, name it again: --model {model}." in done.stderr
    assert "Traceback" not in done.stderr
    assert not marker.exists()
    assert "evil" not in sys.modules


def test_a_network_of_ones_own_is_opened_if_it_is_named_again(
    lila: Lila, photos: Path, tmp_path: Path, marker: Path
) -> None:
    run = tmp_path / "own"
    assert lila("train", photos, "--model", "evil:small", "--out", run, *QUICK).returncode == 0
    for command, arguments in commands(run, photos).items():
        marker.unlink()
        refused = lila(*arguments)
        assert (refused.returncode, marker.exists()) == (4, False), command
        done = lila(*arguments, "--model", "evil:small")
        assert done.returncode == 0, (command, done.stderr)
        assert marker.exists(), command


@pytest.mark.parametrize(
    ("names", "value", "words"),
    [
        (("task", "shape"), ["touch", "x", "y"], "task.shape[0] must be a whole number"),
        (("task", "shape"), [], "The shape of an input has at least one side"),
        (("task", "shape"), [3, 8, 10**9], "each between 1 and"),
        (("task", "classes"), ["blue", "green"], "task.classes has 2 names, but the network has 3 outputs"),
        (("task", "classes"), 3, "task.classes must be a list"),
        (("task", "scaling", "std"), [0.0, 1.0, 1.0], "a positive deviation"),
        (("task", "scaling", "mean"), [0.0], "for each of 3 channels"),
        (("task", "recipe", "transform"), "squared", "no transformed version named 'squared'"),
        (("task", "recipe", "size"), [1], "task.recipe.size must be a list of 2"),
        (("task", "augmentation", "family"), "os", "no family 'os'"),
        (("task", "examples"), [-1, 3], "must not be negative"),
        (("architecture", "net"), None, "architecture.net is missing, though 'mlp' has one"),
        (("task", "model"), 5, "task.model must be a text, but is 5"),
        (("task",), "digits", "task must be a JSON object"),
    ],
)
def test_a_task_that_is_wrong_is_named(
    lila: Lila, copied: Path, photos: Path, names: tuple[str, ...], value: Any, words: str
) -> None:
    change(copied / "run.json", put(*names, value=value))
    for arguments in commands(copied, photos).values():
        done = lila(*arguments)
        if arguments[0] == "resume" and ("outputs" in words or "though" in words):
            continue  # it compares the classes with the data, and makes the network of that name
        assert done.returncode == 7, (arguments[0], done.stderr)
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_weights_that_are_not_numbers_predict_nothing(lila: Lila, copied: Path, photos: Path) -> None:
    tensors, metadata = checkpoint(copied)
    tensors["net.1.weight"][0, 0] = float("nan")
    put_checkpoint(copied, tensors, metadata)
    done = lila("predict", copied, photos)
    assert (done.returncode, done.stdout) == (7, "")
    tensors["net.1.weight"][0, 0] = 1e38  # finite, but what follows is not
    tensors["net.3.weight"].fill_(1e38)
    put_checkpoint(copied, tensors, metadata)
    done = lila("predict", copied, photos)
    assert (done.returncode, done.stdout) == (6, "")
    assert re.search(r"prediction for .*\.png is not finite", done.stderr)


def test_two_commands_do_not_train_in_one_folder_and_a_kill_frees_it(lila: Lila, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ["train", str(photos), "--model", "mlp", "--out", str(out), "--samples", "2", "--batch-size", "8"]
    train += ["--epochs", "100000", "--burn-in", "0", "--checkpoint-every", "100000"]
    command = [sys.executable, *COMMAND, *train, "--progress", "lines"]
    unbuffered = environment(PYTHONUNBUFFERED="1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=unbuffered) as first:
        assert first.stdout is not None
        assert any(line.lstrip().startswith("1/") for line in first.stdout)  # the first epoch is done
        try:
            for arguments in (train, ["resume", str(out)]):
                second = lila(*arguments)
                assert second.returncode == 7
                assert f"is in use: process {first.pid} on " in second.stderr
            assert (out / "run.json").exists()  # the second command left the first one's files alone
        finally:
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
    again = lila("train", photos, "--model", "mlp", "--out", out, *QUICK)
    assert again.returncode == 0, again.stderr
    assert lila("show", out).returncode == 0


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let the operating system refuse files that are larger, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_sentence_and_leaves_the_checkpoint_before_it_whole(
    lila: Lila, photos: Path, tmp_path: Path
) -> None:
    options = ["--model", "mlp", "--samples", "2", "--burn-in", "0", "--batch-size", "8", "--epochs", "4"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with small_files(20_000):
        done = lila("train", photos, "--out", tmp_path / "none", *options)
    assert done.returncode == 8
    assert not (tmp_path / "none").exists()
    assert lila("train", photos, "--out", whole, *options).returncode == 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lila.training.progress.Rows.epoch", interrupted)
        assert lila("train", photos, "--out", cut, *options, "--checkpoint-every", "1").returncode == 130
    before = (cut / "checkpoint.safetensors").read_bytes()
    with small_files(20_000):
        done = lila("resume", cut, "--progress", "silent")
    assert done.returncode == 8
    assert "checkpoint.safetensors could not be written" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (cut / "checkpoint.safetensors").read_bytes() == before
    assert sorted(path.name for path in cut.iterdir()) == ["checkpoint.safetensors", "history.jsonl", "run.json"]
    assert lila("resume", cut).returncode == 0
    one, two = load_file(whole / "checkpoint.safetensors"), load_file(cut / "checkpoint.safetensors")
    assert all(bool((one[name] == two[name]).all()) for name in one)
    epochs = [json.loads(line)["epoch"] for line in (cut / "history.jsonl").read_text().splitlines()]
    assert epochs == [1, 2, 3, 4]


def interrupted(display: object, record: Any) -> None:
    if record.epoch == 2:
        raise KeyboardInterrupt
