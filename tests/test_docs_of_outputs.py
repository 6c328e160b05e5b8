"""The Python of the pages on what comes out of a run, and for users of laplace-torch, runs as it stands."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

DOCS = Path(__file__).parent.parent / "docs"


def names_after(page: str) -> dict[str, Any]:
    """What the blocks of a page leave."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_on_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    names = names_after("outputs.md")
    assert names["again"].shape == names["images"].shape == names["flipped_and_moved"].shape
    expected = names["run"].model.eval()(names["images"]).detach()
    torch.testing.assert_close(names["logits"].detach(), expected, rtol=0, atol=1e-4)
    assert names["probabilities"].shape == (5, 10)
    assert "readable_ranges" in capsys.readouterr().out


def test_the_page_for_users_of_laplace_torch(capsys: pytest.CaptureFixture[str]) -> None:
    names = names_after("coming-from-laplace-torch.md")
    assert names["probabilities"].shape == (60, 2)
    assert np.isfinite(names["loss"].item())
    assert "rotation" in capsys.readouterr().out
