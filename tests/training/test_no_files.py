"""Files of a run that are none, but pipes, devices or links: nothing waits for them, and nothing is written through."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_fit import QUICK, data, network

import lila
from damage import checkpoint, put_checkpoint

FILES = ["run.json", "result.json", "history.jsonl", "checkpoint.safetensors", "posterior.safetensors"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "run"
    settings = QUICK | {"epochs": 2}
    lila.fit(network(), data(), lila.Affine2d(), folder=folder, progress="silent", **settings).save_posterior(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file that nothing may change."""
    path = tmp_path / "precious"
    path.write_text("mine\n")
    return path


@pytest.fixture
def _ended_if_it_waits() -> Iterator[None]:
    """End the process, as a library that waits inside of a system call does not come back to Python."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_ended_if_it_waits")
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_or_a_device_is_not_read(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(lila.CheckpointError, match=rf"{name} cannot be read: it is not a regular file"):
        lila.load(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(lila.CheckpointError, match=rf"{name} cannot be read: it is not a regular file"):
        lila.load(folder)


def test_a_text_of_many_gigabytes_is_not_read(folder: Path) -> None:
    with (folder / "history.jsonl").open("ab") as file:
        file.truncate(2**40)  # which takes no room on the disk
    with pytest.raises(lila.CheckpointError, match=r"history\.jsonl is damaged: it has 1,099,511,627,776 bytes"):
        lila.load(folder)


def test_a_lock_that_is_a_link_is_not_written_through(folder: Path, precious: Path) -> None:
    (folder / "run.lock").symlink_to(precious)
    with pytest.raises(lila.CheckpointError, match=r"run\.lock is a link, and writing to it would change '/"):
        lila.resume(folder, network(), data(), lila.Affine2d())
    assert precious.read_text() == "mine\n"


def test_a_history_that_is_a_link_is_not_written_through(folder: Path, precious: Path) -> None:
    """Before the first epoch no line of it is read, and all of them would be cut off."""
    put_checkpoint(folder, checkpoint(folder)[0], checkpoint(folder)[1] | {"epoch": "0"})
    (folder / "history.jsonl").unlink()
    (folder / "history.jsonl").symlink_to(precious)
    with pytest.raises(lila.CheckpointError, match=r"history\.jsonl is a link"):
        lila.resume(folder, network(), data(), lila.Affine2d())
    assert precious.read_text() == "mine\n"
