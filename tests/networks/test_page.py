"""The Python of docs/networks.md runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()


def test_the_pages_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks[:-1]:
        exec(compile(block, "networks.md", "exec"), names)
    with pytest.warns(UserWarning, match="mix.weight"):
        exec(compile(blocks[-1], "networks.md", "exec"), names)
    printed = capsys.readouterr().out
    for expected in ("GroupNorm(2, 32, eps=1e-05", "['mix.weight', 'mix.bias']"):
        assert expected in printed
