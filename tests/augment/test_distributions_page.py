"""The Python of docs/distributions.md runs and prints what its comments say."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "distributions.md").read_text()


def test_the_pages_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "distributions.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "x-scale and y-scale move together, correlation 0.98" in printed
    assert "{'x-translation': '+0.00 px to +2.80 px'}" in printed
    assert "tensor([1.0000, 1.0000]" in printed or "tensor([1., 1.]" in printed
