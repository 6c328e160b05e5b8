"""Running the command line on small real files: fixtures for all tests that do."""

import io
import os
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
import torch
from PIL import Image

from lila.cli import main
from lila.networks.registry import MODELS
from small_lila import SMALL

Lila = Callable[..., subprocess.CompletedProcess[str]]
OF_NETWORKS = {"models", "bench", "reproduce"}  # commands that are about the networks as they are
QUICK = ("--epochs", "2", "--samples", "2", "--burn-in", "0", "--batch-size", "8", "--no-baseline")


def run_lila(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a command prints and returns, without a process of its own, which would spend seconds on its imports.

    Its MLP is that of `small_lila`.
    """
    given, out, err = [str(argument) for argument in arguments], io.StringIO(), io.StringIO()
    networks = {} if OF_NETWORKS & set(given[:1]) else SMALL
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.dict(MODELS, networks),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = main(given)
        except SystemExit as exit_:  # argparse
            code = int(exit_.code or 0)
    return subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def lila() -> Lila:
    return run_lila


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Colour images of three classes, 10 each, of 8 x 8 pixels: a bright spot whose colour is the class."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    generator = torch.Generator().manual_seed(0)
    for number, name in enumerate(("blue", "green", "red")):
        (folder / name).mkdir(parents=True)
        for i in range(10):
            pixels = torch.randint(60, (8, 8, 3), generator=generator)
            pixels[2:6, 2:6, 2 - number] += 180
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="session")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that `lila train` made."""
    folder = tmp_path_factory.mktemp("runs") / "photos"
    done = run_lila("train", photos, "--model", "mlp", "--out", folder, *QUICK)
    assert done.returncode == 0, done.stderr
    return folder
