"""The Python of the page about families runs as it stands, and its table names every registered family."""

import re
from pathlib import Path
from typing import Any

import pytest

import lila

PAGE = (Path(__file__).parent.parent / "docs" / "families.md").read_text()


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "families.md", "exec"), names)
    assert "dilation" in capsys.readouterr().out
    assert names["views"].shape == (2, 5, 3, 8, 8)


@pytest.mark.parametrize("name", lila.augmentation_names())
def test_it_names_each_family_with_its_ranges(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    family = lila.make_augmentation(name)
    assert f"`lila.{type(family).__name__}`" in row
    assert all(range_ in row for range_ in family.ranges)
