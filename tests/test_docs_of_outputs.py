"""The Python of the pages on what comes out of a run, and for users of laplace-torch, runs as it stands."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pages


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_on_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    names = pages.run("outputs.md")
    assert names["again"].shape == names["images"].shape == names["flipped_and_moved"].shape
    expected = names["run"].model.eval()(names["images"]).detach()
    torch.testing.assert_close(names["logits"].detach(), expected, rtol=0, atol=1e-4)
    assert names["probabilities"].shape == (5, 10)
    assert "readable_ranges" in capsys.readouterr().out


def test_the_page_for_users_of_laplace_torch(capsys: pytest.CaptureFixture[str]) -> None:
    names = pages.run("coming-from-laplace-torch.md")
    assert names["probabilities"].shape == (60, 2)
    assert np.isfinite(names["loss"].item())
    assert "rotation" in capsys.readouterr().out
