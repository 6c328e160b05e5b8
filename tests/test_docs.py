"""The Python of every page runs as it stands, every public name has an example, and links lead somewhere.

Trainings of the tutorials are made shorter here; `make docs` runs them whole.
"""

import csv
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch

import lila
import pages

OWN_TESTS = {
    "README.md": "test_readme.py",
    "coming-from-laplace-torch.md": "test_docs_of_outputs.py",
    "distributions.md": "augment/test_distributions_page.py",
    "families.md": "test_families_page.py",
    "networks.md": "networks/test_page.py",
    "outputs.md": "test_docs_of_outputs.py",
    "own-loop.md": "integrations/test_own_loop_page.py",
}
"""Pages with tests of their own, which look at what their blocks print and leave."""
EXTENDING = "extending.md"
REPOSITORY = (
    "https://github.com/lila-torch/lila/blob/main/",
    "https://github.com/lila-torch/lila/tree/main/",
    "https://raw.githubusercontent.com/lila-torch/lila/main/",
)
"""Addresses of files of the repository."""


def all_pages() -> list[str]:
    found = (path.relative_to(pages.DOCS) for path in pages.DOCS.rglob("*.md"))
    return sorted(path.as_posix() for path in found if not path.parts[0].startswith("_"))


PYTHON_PAGES = [page for page in ("README.md", *all_pages()) if pages.blocks(page)]
OTHER_PAGES = [
    pytest.param(page, marks=pytest.mark.slow if page.startswith("tutorials/") else ())
    for page in PYTHON_PAGES
    if page not in OWN_TESTS and page != EXTENDING
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("page", OTHER_PAGES)
def test_the_python_of_a_page_runs(page: str, folder: Path) -> None:
    mpl.use("Agg")
    shorter = [re.sub(r"^(EPOCHS|PRETRAINING) = \d+$", r"\1 = 2", block, flags=re.M) for block in pages.blocks(page)]
    with pages.registries_as_before():
        pages.run(page, *shorter)
    plt.close("all")


@pytest.mark.parametrize("page", OWN_TESTS)
def test_other_pages_have_a_test_of_their_own(page: str) -> None:
    test = (Path(__file__).parent / OWN_TESTS[page]).read_text()
    assert page in PYTHON_PAGES
    assert f'"{page}"' in test
    assert re.search(r"\bpages\.run\(", test)


@pytest.mark.parametrize(
    "title", ["A family of augmentations", "A rule for a layer type", "A structure of the curvature"]
)
def test_the_examples_of_extending_lila_run(title: str, folder: Path) -> None:
    with pages.registries_as_before():
        names = pages.run(EXTENDING, *pages.blocks(EXTENDING, title=title))
    assert title != "A family of augmentations" or names["run"].ranges.keys() == {"brightness"}


def test_the_format_of_extending_lila_reads_a_file_and_the_command_line_knows_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pixels = torch.randint(256, (8, 16)).tolist()
    with (folder / "spots.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("dark", "light")[i % 2], *row] for i, row in enumerate(pixels))
    reads, commands = pages.blocks(EXTENDING, title="A data format")
    with pages.registries_as_before():
        names = pages.run(EXTENDING, reads)
        assert names["task"].examples == (6, 2)
        monkeypatch.setitem(sys.modules, "my_formats", ModuleType("my_formats"))
        monkeypatch.setattr(sys, "argv", ["lila", "data", "list"])
        with pytest.raises(SystemExit) as end:
            pages.run(EXTENDING, commands)
    assert end.value.code == 0
    assert "label and the pixels" in capsys.readouterr().out


@pytest.mark.parametrize("name", lila.__all__)
def test_every_public_name_is_in_the_reference_with_an_example(name: str) -> None:
    (page,) = [page for page in all_pages() if re.search(rf"^\.\. auto\w+:: lila\.{name}$", pages.read(page), re.M)]
    assert page.startswith("api/")
    assert any(re.search(rf"\blila\.{name}\b", block) for block in pages.blocks(page)) or name in pages.read(page)


def anchors(text: str) -> set[str]:
    """The names by which GitHub and Sphinx link to the headings of a page."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", without_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ["README.md", "../CONTRIBUTING.md", *all_pages()])
def test_links_to_files_and_headings_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", pages.read(page), flags=re.DOTALL | re.MULTILINE)
    here = pages.ROOT if page == "README.md" else (pages.DOCS / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = re.sub(rf"^({'|'.join(REPOSITORY)})", "repository:", target).partition("#")
        if path.startswith(("http:", "https:")):
            continue
        inside = path.removeprefix("repository:")
        file = pages.ROOT / inside if inside != path else here / path if path else pages.DOCS / page
        assert file.is_file(), f"{page} links to {target}, which is no file"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{page} links to {target}, which has no such heading"


def test_no_tutorial_left_its_files_in_the_repository() -> None:
    """A notebook that finds the run of an earlier build would refuse to train there."""
    assert {path.suffix for path in (pages.DOCS / "tutorials").iterdir()} == {".md"}
