"""The Python of docs/distributions.md runs and prints what its comments say."""

import pytest

import pages


def test_the_pages_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pages.run("distributions.md")
    printed = capsys.readouterr().out
    assert "x-scale and y-scale move together, correlation 0.98" in printed
    assert "{'x-translation': '+0.00 px to +2.80 px'}" in printed
    assert "tensor([1.0000, 1.0000]" in printed or "tensor([1., 1.]" in printed
