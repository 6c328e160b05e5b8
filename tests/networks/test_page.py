"""The Python of docs/networks.md runs as it stands."""

import pytest

import pages

PAGE = "networks.md"


def test_the_pages_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    *before, last = pages.blocks(PAGE)
    names = pages.run(PAGE, *before)
    with pytest.warns(UserWarning, match="mix.weight"):
        pages.run(PAGE, last, names=names)
    printed = capsys.readouterr().out
    for expected in ("GroupNorm(2, 32, eps=1e-05", "['mix.weight', 'mix.bias']"):
        assert expected in printed
