"""Runs, a report on them, and one browser for all tests of reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import run_lila

CHROMIUM = next((path for path in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser")) if path.exists()), None)
OPTIONS = ("--transform", "partially-rotated", "--epochs", "4", "--subset", "100", "--samples", "2", "--burn-in", "1")


@pytest.fixture(scope="session")
def digit_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One run that learns ranges by the evidence, one by Augerino, one that has none."""
    folder = tmp_path_factory.mktemp("runs")
    made = []
    for method in ("lila", "augerino", "non-invariant"):
        made.append(folder / method)
        done = run_lila("train", "digits", *OPTIONS, "--no-baseline", "--method", method, "--out", made[-1])
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="session")
def report(digit_runs: list[Path]) -> Path:
    """A report on all of them."""
    path = digit_runs[0].parent / "report.html"
    assert run_lila("report", *digit_runs, "--out", path).returncode == 0
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without a network."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    playwright_api = pytest.importorskip("playwright.sync_api")
    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    quiet += ["--disable-quic", "--disable-component-update"]
    with playwright_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=quiet)
        yield launched
        launched.close()
