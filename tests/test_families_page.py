"""The Python of the page about families runs as it stands, and its table names every registered family."""

import pytest

import lila
import pages

PAGE = "families.md"


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names = pages.run(PAGE)
    assert "dilation" in capsys.readouterr().out
    assert names["views"].shape == (2, 5, 3, 8, 8)


@pytest.mark.parametrize("name", lila.augmentation_names())
def test_it_names_each_family_with_its_ranges(name: str) -> None:
    row = next(line for line in pages.read(PAGE).splitlines() if line.startswith(f"| `{name}` |"))
    family = lila.make_augmentation(name)
    assert f"`lila.{type(family).__name__}`" in row
    assert all(range_ in row for range_ in family.ranges)
